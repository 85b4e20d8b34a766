"""The tool that sends one HTTP request to a host the policy lists."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from foregate.agent.tools.arguments import get_count
from foregate.agent.tools.builtin.commands import TIMEOUT, get_seconds
from foregate.agent.tools.builtin.http_address import (
    HttpAddress,
    Resolve,
    is_public,
    parse_address,
    pin_address,
    system_resolve,
)
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.output import trim_cut_end
from foregate.policy.policy import Policy
from foregate.policy.risk.http import effect_of_method, is_allowed_host
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.strict_json import Json, get_object, get_text
from foregate.schemas.tool_call import EvidenceKind, EvidenceRecord, Origin, ToolResult, Trust
from foregate.schemas.tool_spec import Capabilities, Effect, Resource, ResourceKind, TargetParameter, ToolSpec

if TYPE_CHECKING:
    import httpx2

SENDER = Capabilities(read_only=False, external_side_effect=True, needs_approval=False, reversible=False)
_LOOKS = ("GET", "HEAD")
_METHODS = (*_LOOKS, "POST", "PUT", "PATCH", "DELETE")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}\Z")
_VALUE = re.compile(r"[\t\x20-\x7e]{0,8192}\Z")
_OURS = ("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "accept-encoding")
_SHOWN = ("content-type", "location", "etag", "last-modified", "retry-after", "www-authenticate")


def http_request(
    policy: Policy, *, resolve: Resolve = system_resolve, acceptable: Callable[[str], bool] = is_public
) -> Tool:
    """Return the tool; `resolve` looks hosts up and `acceptable` says which addresses may be connected to."""

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        address = parse_address(get_text(arguments, "url"))
        if not is_allowed_host(address.host, policy):
            listed = ", ".join(policy.http.hosts) or "none"
            raise WorkspaceError(f"the host `{address.host}` is not among the policy's http.hosts ({listed})")
        method = get_text(arguments, "method", "GET")
        headers = check_headers(get_object(arguments, "headers"))
        body = get_text(arguments, "body", "").encode()
        seconds = get_seconds(arguments, policy.http.timeout)
        cap = min(get_count(arguments, "max_bytes", policy.http.max_bytes), policy.http.max_bytes)
        if body and method in _LOOKS:
            raise WorkspaceError(f"a {method} request has no body; leave it out or use POST")
        try:
            async with asyncio.timeout(seconds):
                pinned = await pin_address(address, resolve, acceptable)
                return await send_request(address, pinned, method, headers, body, seconds, cap)
        except TimeoutError:
            text = f"no whole answer from `{address.host}` within {seconds:g} seconds"
            return ToolResult(False, text, error="timeout", unknown=method not in _LOOKS, origin=Origin.EXTERNAL)

    return Tool(
        ToolSpec(
            "http_request",
            "Send one HTTP request to a host the policy lists. Redirects are not followed: the answer names the place.",
            {
                "type": "object",
                "properties": {
                    "url": {"type": "string", "minLength": 1, "description": "An http or https URL."},
                    "method": {"type": "string", "enum": list(_METHODS), "description": "Default GET."},
                    "headers": {
                        "type": "object",
                        "additionalProperties": {"type": "string"},
                        "description": "Header names and values.",
                    },
                    "body": {"type": "string", "description": "Text to send; not with GET or HEAD."},
                    "timeout_ms": TIMEOUT,
                    "max_bytes": {"type": "integer", "minimum": 1, "description": "Bytes of the answer to return."},
                },
                "required": ["url"],
                "additionalProperties": False,
            },
            Effect.OBSERVATION,
            SENDER,
            (TargetParameter("url", ResourceKind.URL, Effect.OBSERVATION),),
            "builtin",
            timeout=policy.http.timeout + 15,
        ),
        run,
        lambda arguments: effect_of_method(get_text({"method": "GET", **arguments}, "method")),
    )


def check_headers(headers: Mapping[str, Json]) -> dict[str, str]:
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
    address: HttpAddress,
    pinned: str,
    method: str,
    headers: Mapping[str, str],
    body: bytes,
    seconds: float,
    cap: int,
) -> ToolResult:
    """Connect to the pinned address, send, and return the answer as it comes: unfollowed, uncompressed, bounded."""
    import httpx2

    host = f"[{pinned}]" if ":" in pinned else pinned
    url = f"{address.scheme}://{host}:{address.port}{address.path}"
    authority = HttpAddress(address.scheme, address.host, address.port, "").url.partition("://")[2]
    transport = httpx2.AsyncHTTPTransport(trust_env=False, retries=0)
    try:
        async with httpx2.AsyncClient(
            transport=transport, trust_env=False, follow_redirects=False, timeout=seconds
        ) as client:
            request = client.build_request(
                method,
                url,
                headers={**headers, "Host": authority, "Accept-Encoding": "identity", "Connection": "close"},
                content=body or None,
                extensions={"sni_hostname": address.host},
            )
            answer = await client.send(request, stream=True)
            try:
                return await read_response(cap, address, method, answer)
            finally:
                await answer.aclose()
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
    ok = answer.status_code < 400
    return ToolResult(
        ok,
        "\n".join(lines),
        records,
        origin=Origin.EXTERNAL,
        error="" if ok else "http_status",
        dropped=max(0, missing) if cut else 0,
    )
