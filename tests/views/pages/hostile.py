"""A recorded session in which every text that can be another one is an attack, its chain as sound as before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import GENESIS, Event
from foregate.telemetry.log import chain
from foregate.telemetry.log.memory_log import MemoryBlobs
from tests.corpus.archive import read_blobs, read_sessions

ATTACK = (
    "\"'><img src=x onerror=owned()><svg onload=owned()><b onmouseover=owned()>fat</b></textarea></script>"
    "<script>owned()</script><!-- ]]> {{ 7 * 7 }} {% raw %} javascript:owned() "
    "\u202e\u2066\u200b\x1b[31m\x07\x00\u2028</style><style>*{display:none}</style><meta http-equiv=refresh content=0>"
    "<a href=javascript:owned()>x</a><base href=//example.org><iframe src=//example.org></iframe><form action=//e.org>"
)
LONG = 5_000_000
_KEPT = {"policy", "layers", "catalogue", "parameters"}
"""Fields that are left alone: a session is judged again by them, and no page shows them."""


class HostileLog:
    """The log of such a session, as `Readable` and with blobs."""

    def __init__(self, name: str, long: int = 0) -> None:
        found = read_sessions()[name]
        (session,) = found.sessions
        self.session = f"{session}{ATTACK}"
        self.blobs = MemoryBlobs()
        for data in read_blobs().values():
            self.blobs.put(data)
        self._rows: list[tuple[int, str, str]] = []
        prev = GENESIS
        for _, text, _hash in found.sessions[session]:
            prev = self._add(json.loads(text), prev, long)

    def _add(self, header: dict[str, Any], prev: str, long: int) -> str:
        header |= {"session": self.session, "prev": prev}
        list(_poison(header["body"], header))
        if long and header["kind"] in ("user_message", "model_response"):
            header["body"]["text"] += "<script>" * (long // 8)
        text = strict_json.encode_record(header).decode()
        self._rows.append((header["seq"], text, strict_json.sha256(text.encode())))
        return self._rows[-1][2]

    def lines(self, session: str) -> Iterator[tuple[int, str, str]]:
        """Yield the events as stored."""
        yield from self._rows

    def events(self, session: str, *, after: int = 0, until: int = 0, kinds: Sequence[str] = ()) -> Iterator[Event]:
        """Yield the events."""
        for seq, text, hash_ in self._rows[max(after, 0) : until or None]:
            event = chain.read_line(text, hash_)
            if not kinds or event.kind in kinds:
                yield event
            assert seq == event.seq

    def list_erased(self, session: str) -> dict[int, Any]:
        """Return none: nothing is erased."""
        return {}

    def head_anchor(self, session: str) -> tuple[int, str]:
        """Return the last event."""
        return self._rows[-1][0], self._rows[-1][2]


def _poison(value: Any, header: dict[str, Any]) -> Iterator[None]:
    """Put the attack behind every text beneath `value` behind which the event can still be read."""
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(item, str):
            value[key] = f"{item}{ATTACK}" if key != "arguments" else _poison_arguments(item)
            try:
                chain.read_event(header, "")
            except InvalidJson:
                value[key] = item
        elif isinstance(item, (dict, list)) and key not in _KEPT:
            yield from _poison(item, header)


def _poison_arguments(text: str) -> str:
    try:
        read = json.loads(text)
    except ValueError:
        return text + ATTACK
    poisoned = {f"{key}": f"{item}{ATTACK}" if isinstance(item, str) else item for key, item in read.items()}
    return json.dumps({**poisoned, f"more{ATTACK}": ATTACK})
