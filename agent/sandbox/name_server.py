"""The name server of a sandbox: it tells where the given hosts are, and keeps which others were wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from foregate.schemas.host import normalise_host

if TYPE_CHECKING:
    import dns.message

Look = Callable[[str], Awaitable[str]]
"""Returns the address that stands for a host inside the sandbox, "" where it has none."""
_MOST_LOOKING = 64


class NameServer(asyncio.DatagramProtocol):
    """Answers at once that there is no such host, but for those that `is_given`, which are looked for.

    `want` hears of each other host whose address was asked for. Nothing that is asked here is passed on.
    """

    def __init__(self, is_given: Callable[[str], bool], look: Look, want: Callable[[str], None]) -> None:
        self._is_given, self._look, self._want = is_given, look, want
        self._looking: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where answers are sent."""
        self._transport = cast("asyncio.DatagramTransport", transport)

    def close(self) -> None:
        """Answer no more."""
        self._transport.close()

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        """Answer a question; what is none stays without an answer."""
        import dns.exception
        import dns.message
        import dns.rdatatype as kinds

        try:
            query = dns.message.from_wire(data, question_only=True)
            (asked,) = query.question
            answer = dns.message.make_response(query, recursion_available=True)
        except (dns.exception.DNSException, ValueError):
            return
        host = normalise_host(asked.name.to_text(omit_final_dot=True))
        if not self._is_given(host):
            if host and asked.rdtype in (kinds.A, kinds.AAAA):
                self._want(host)
            self._send(answer, address, found=False)
        elif len(self._looking) < _MOST_LOOKING:
            work = self._answer(answer, host, address, is_address=asked.rdtype == kinds.A)
            task = asyncio.get_running_loop().create_task(work)
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)

    async def _answer(self, answer: dns.message.Message, host: str, address: tuple[str, int], is_address: bool) -> None:
        import dns.rrset

        found = await self._look(host)
        if found and is_address:
            answer.answer.append(dns.rrset.from_text(answer.question[0].name, 0, "IN", "A", found))
        self._send(answer, address, found=bool(found))

    def _send(self, answer: dns.message.Message, address: tuple[str, int], *, found: bool) -> None:
        import dns.rcode

        answer.set_rcode(dns.rcode.NOERROR if found else dns.rcode.NXDOMAIN)
        self._transport.sendto(answer.to_wire(), address)
