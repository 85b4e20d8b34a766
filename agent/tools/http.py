"""The tool that sends one HTTP request to a host the policy lists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from msgspec import Struct

from foregate.agent.sandbox.network_addresses import Resolve, find_addresses, system_resolve
from foregate.agent.tools import builtin_tool
from foregate.agent.tools.commands import TIMEOUT, get_seconds
from foregate.agent.tools.tool import Arguments, Tool
from foregate.agent.workspace.process import trim_cut_end
from foregate.policy.policy import Policy
from foregate.policy.risk.http import complete_url, effect_of_method, explain_unlisted, is_allowed_host, read_host
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.host import is_private
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json, get_object, get_text
from foregate.schemas.tool_call import EvidenceKind, EvidenceRecord, Origin, ToolResult, Trust
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind, TargetParameter

if TYPE_CHECKING:
    import httpx2


_PORTS = {"http": 80, "https": 443}
_MAX_URL = 8192
_LOOKS = ("GET", "HEAD")
_METHODS = (*_LOOKS, "POST", "PUT", "PATCH", "DELETE")
# "X-Request-Id".
_NAME = compile_late(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}\Z")
# "text/html; q=0.9": no line breaks, which would begin a further header.
_VALUE = compile_late(r"[\t\x20-\x7e]{0,8192}\Z")
_OURS = ("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "accept-encoding")
_SHOWN = ("content-type", "location", "etag", "last-modified", "retry-after", "www-authenticate")


class HttpAddress(Struct, frozen=True):
    """A URL in parts. `host` is lower-case ASCII without brackets, `port` explicit, `path` holds the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def url(self) -> str:
        """The canonical URL: default port left out, no user, no fragment."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


def parse_address(url: str) -> HttpAddress:
    """Return the parts of an http or https URL; raise WorkspaceError for anything that could be read in two ways.

    A bare host name, perhaps with a path, is taken for the https URL that people mean by it.
    """
    url = complete_url(url)
    host = read_host(url) if len(url) <= _MAX_URL else ""
    if not host:
        raise WorkspaceError(f"`{url[:80]}` is no plain http or https URL; give one like https://example.org/path")
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    path = quote((parts.path or "/") + query, safe="/%?[]@!$&'()*+,;=:~-._")
    return HttpAddress(parts.scheme, host, parts.port or _PORTS[parts.scheme], path)


def http_request(
    policy: Policy, *, resolve: Resolve = system_resolve, is_refused: Callable[[str], bool] = is_private
) -> Tool:
    """Return the tool; `resolve` looks hosts up and `is_refused` says which addresses are not connected to."""

    async def run(arguments: Arguments) -> ToolResult:
        address = parse_address(get_text(arguments, "url"))
        if not is_allowed_host(address.host, policy):
            raise WorkspaceError(explain_unlisted(address.host, policy))
        method = get_text(arguments, "method", "GET")
        headers = check_headers(get_object(arguments, "headers"))
        body = get_text(arguments, "body", "").encode()
        seconds = get_seconds(arguments, policy.http.timeout)
        cap = min(builtin_tool.get_count(arguments, "max_bytes", policy.http.max_bytes), policy.http.max_bytes)
        if body and method in _LOOKS:
            raise WorkspaceError(f"a {method} request has no body; leave it out or use POST")
        try:
            async with asyncio.timeout(seconds):
                pinned = (await find_addresses(address.host, address.port, resolve, is_refused))[0]
                return await send_request(address, pinned, method, headers, body, seconds, cap)
        except TimeoutError:
            text = f"no whole answer from `{address.host}` within {seconds:g} seconds"
            return ToolResult(False, text, error="timeout", unknown=method not in _LOOKS, origin=Origin.EXTERNAL)

    text: Json = {"type": "string"}
    return builtin_tool.build_tool(
        "http_request",
        "Send one HTTP request to a host the policy lists. Redirects are not followed: the answer names the place.",
        {
            "url": builtin_tool.describe_text("An http or https URL."),
            "method": {"type": "string", "enum": list(_METHODS), "description": "Default GET."},
            "headers": {"type": "object", "additionalProperties": text, "description": "Header names and values."},
            "body": {"type": "string", "description": "Text to send; not with GET or HEAD."},
            "timeout_ms": TIMEOUT,
            "max_bytes": builtin_tool.describe_count("Bytes of the answer to return."),
        },
        ["url"],
        [TargetParameter("url", ResourceKind.URL, Effect.OBSERVATION)],
        run,
        capabilities=builtin_tool.SENDER,
        timeout=policy.http.timeout + builtin_tool.GRACE,
        classify=lambda arguments: effect_of_method(get_text({"method": "GET", **arguments}, "method")),
    )


def check_headers(headers: Arguments) -> dict[str, str]:
    """Return the headers of a call; raise WorkspaceError for one that could smuggle another, or is not the call's."""
    checked: dict[str, str] = {}
    for name, value in headers.items():
        if not _NAME.match(name) or not isinstance(value, str) or not _VALUE.match(value):
            raise WorkspaceError(f"the header `{name[:40]!a}` holds characters no header may hold; remove them")
        if name.lower() in _OURS or name.lower().startswith("proxy-"):
            raise WorkspaceError(f"the header `{name[:40]}` is set for you; leave it out")
        checked[name] = value
    return checked


async def send_request(
    address: HttpAddress, pinned: str, method: str, headers: Mapping[str, str], body: bytes, seconds: float, cap: int
) -> ToolResult:
    """Connect to the pinned address, send, and return the answer as it comes: unfollowed, uncompressed, bounded."""
    import httpx2

    host = f"[{pinned}]" if ":" in pinned else pinned
    # To the address that was checked: the name, looked up again, could lead elsewhere.
    url = f"{address.scheme}://{host}:{address.port}{address.path}"
    authority = HttpAddress(address.scheme, address.host, address.port, "").url.partition("://")[2]
    ours = {"Host": authority, "Accept-Encoding": "identity", "Connection": "close"}
    # The certificate must be that of the name, not of the address.
    sni = {"sni_hostname": address.host}
    transport = httpx2.AsyncHTTPTransport(trust_env=False, retries=0)
    try:
        async with (
            httpx2.AsyncClient(transport=transport, trust_env=False, follow_redirects=False, timeout=seconds) as client,
            client.stream(method, url, headers={**headers, **ours}, content=body or None, extensions=sni) as answer,
        ):
            return await read_response(cap, address, method, answer)
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol) as error:
        return ToolResult(False, f"`{address.host}` could not be reached: {error}"[:500], error="unreachable")
    except httpx2.HTTPError as error:
        text = f"the connection to `{address.host}` broke: {type(error).__name__}: {error}"[:500]
        return ToolResult(False, text, error="broken", unknown=method not in _LOOKS, origin=Origin.EXTERNAL)


async def read_response(cap: int, address: HttpAddress, method: str, answer: httpx2.Response) -> ToolResult:
    """Read an answer up to `cap` bytes and return it as text, with its record when it was a look."""
    kept, total = bytearray(), 0
    async for chunk in answer.aiter_raw():
        total += len(chunk)
        kept += chunk[: max(0, cap - len(kept))]
        if total > cap:
            break
    cut = total > len(kept)
    body = trim_cut_end(bytes(kept)) if cut else bytes(kept)
    length = answer.headers.get("content-length", "")
    missing = int(length) - len(body) if cut and length.isdigit() else total - len(body)
    lines = [f"HTTP {answer.status_code} {answer.reason_phrase}".rstrip()]
    lines += [f"{name}: {answer.headers[name][:1000]}" for name in _SHOWN if name in answer.headers]
    if 300 <= answer.status_code < 400:
        lines.append("(not followed)")
    if coding := answer.headers.get("content-encoding"):
        lines.append(f"(the body is {len(body)} bytes in the coding {coding[:40]}, not decoded)")
    elif b"\0" in body[:8192]:
        lines.append(f"(the body is {len(body)} bytes that are no text)")
    else:
        lines += ["", body.decode("utf-8", "replace")]
    if cut:
        lines.append(f"[... at least {missing} bytes left out ...]")
    records: tuple[EvidenceRecord, ...] = ()
    if method in _LOOKS:
        resource = Resource(ResourceKind.URL, address.url)
        trust = Trust.INFERRED if cut else Trust.DIRECT
        content = "" if cut else strict_json.sha256(body)
        records = (EvidenceRecord(EvidenceKind.API_RESPONSE, resource, content, trust, Origin.EXTERNAL),)
    text, left_out = "\n".join(lines), max(0, missing) if cut else 0
    error = "" if answer.status_code < 400 else "http_status"
    return ToolResult(not error, text, records, origin=Origin.EXTERNAL, error=error, dropped=left_out)
