"""The tools of a session as a server of the Model Context Protocol, on standard input and output."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, cast

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from foregate.agent.serving.lines import Lines, take_over_input
from foregate.agent.serving.tool_server import ToolServer
from foregate.agent.tools.remote_protocol import Response
from foregate.policy.policy import Policy
from foregate.schemas.event import Event
from foregate.schemas.event_body import ToolStarted
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.schemas.sources import explain_naming, explain_source, list_to_name
from foregate.schemas.strict_json import Json, as_object, get_list, get_text
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Effect, ResourceKind, ToolSpec
from foregate.schemas.version import __version__
from foregate.schemas.visible import make_visible

Context = ServerRequestContext[Any, Any]
Show = Callable[[Need], str]
_WORLD = (ResourceKind.URL, ResourceKind.HOST, ResourceKind.MESSAGE)
_ASKED = "approval"
"""The name of our one question among the inputs a call may require."""
_LONGEST = 80
_INSTRUCTIONS = (
    "Every call is judged before it runs. A call that is held says why and what cures it: read a file before you edit "
    "it, for example, then send the same call again. What was denied stays denied."
)
_CURES = ("remedy", "observed")
_APPROVE: dict[str, Any] = {"type": "boolean", "title": "Let it run", "default": False}


class ClientPerson:
    """The person of one call, who is asked through the client: question and answer pass through here.

    A client of the newer protocol is told that input is required and sends the call again with it.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self.asked: asyncio.Future[Need] = asyncio.get_running_loop().create_future()
        self._reply: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()

    async def answer(self, need: Need) -> Reply | None:
        """Hand the question on and return the answer, None where none comes in time."""
        if self.asked.done():
            # A client is asked once about a call.
            return None
        self.asked.set_result(need)
        try:
            async with asyncio.timeout(self._seconds):
                return await self._reply
        except TimeoutError:
            return None

    def reply(self, given: types.ElicitResult | None) -> None:
        """Take the client's answer: yes, no, or none."""
        if self._reply.done():
            return
        if given is None or given.action == "cancel":
            self._reply.set_result(None)
            return
        content = (given.content or {}) if given.action == "accept" else {}
        named = read_named(self.asked.result(), content)
        agreed = content.get("approve") is True
        self._reply.set_result(
            Reply("yes" if agreed else "no", by="the client's person", named=named if agreed else {})
        )


class ServedCall(NamedTuple):
    """A call that was handed to the tool server."""

    id: str
    asking: ClientPerson
    running: asyncio.Future[Response]


class McpServer:
    """Serves one client: lists the tools, and has each call judged and run by the tool server."""

    def __init__(self, server: ToolServer, specs: Sequence[ToolSpec], policy: Policy, show: Show) -> None:
        self._server, self._specs, self._policy, self._show = server, specs, policy, show
        self._numbers = count(1)
        self._waiting: dict[str, ServedCall] = {}
        self._contexts: dict[str, Context] = {}
        self._reports: deque[asyncio.Task[None]] = deque(maxlen=64)
        self._write: Any = None
        server.session.subscribe(self._report_start)

    async def run(self) -> None:
        """Serve until the client closes our standard input."""
        app: Server[Any] = Server(
            "foregate",
            version=__version__,
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        lines = Lines(take_over_input(0), self._policy.serving.max_message, self._refuse)
        async with stdio_server(stdin=cast("Any", lines)) as (read, write):
            self._write = write
            await app.run(read, write, app.create_initialization_options(NotificationOptions()))

    async def _refuse(self, id: Any, why: str) -> None:  # noqa: A002
        """Answer a line that is no message, so that nobody waits for it."""
        problem = types.ErrorData(code=types.PARSE_ERROR, message=why)
        await self._write.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=id, error=problem)))

    async def _list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[build_tool(spec) for spec in self._specs])

    async def _call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.request_state is not None:
            known = self._waiting.pop(params.request_state, None)
            if known is None:
                return build_failure("not_run", "no call waits for this answer; send the call itself")
            given = (params.input_responses or {}).get(_ASKED)
            known.asking.reply(given if isinstance(given, types.ElicitResult) else None)
            return await self._follow_call(context, known)
        if len(self._waiting) >= self._policy.serving.max_waiting:
            return build_failure("too_many_waiting", "too many calls wait for an answer already")
        call = ToolCall.parse(params.name, json.dumps(params.arguments or {}), wire_id=f"mcp:{next(self._numbers)}")
        asking = ClientPerson(self._policy.approval.expires or None)
        able = context.session.client_capabilities
        speaker = asking if able is not None and able.elicitation is not None else None
        await context.session.report_progress(0, 2, "judging")
        # Before it can begin, so that the client hears when it does.
        self._contexts[call.wire_id] = context
        running = asyncio.ensure_future(self._server.answer(call, self._policy.serving.max_deadline, speaker))
        return await self._follow_call(context, ServedCall(call.wire_id, asking, running))

    async def _follow_call(
        self, context: Context, begun: ServedCall
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Return the outcome of a call, or the question that has to be answered first."""
        asking, running = begun.asking, begun.running
        try:
            if not asking.asked.done():
                either: list[asyncio.Future[Any]] = [running, asking.asked]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if asking.asked.done() and not running.done():
                    need = asking.asked.result()
                    question, asked = self._show(need), build_form(need)
                    if not context.session.can_send_request:
                        self._waiting[state := secrets.token_urlsafe(16)] = begun
                        form = types.ElicitRequestFormParams(message=question, requested_schema=asked)
                        ask = types.ElicitRequest(params=form)
                        return types.InputRequiredResult(input_requests={_ASKED: ask}, request_state=state)
                    asking.reply(await context.session.elicit_form(question, asked, context.request_id))
            response = await asyncio.shield(running)
        except asyncio.CancelledError:
            self._server.cancel(begun.id)
            raise
        except Exception:
            asking.reply(None)
            raise
        finally:
            self._contexts.pop(begun.id, None)
        await context.session.report_progress(2, 2, "done")
        return build_response_result(response)

    def _report_start(self, event: Event) -> None:
        """Tell the client that a call has begun."""
        if isinstance(event.body, ToolStarted):
            for context in self._contexts.values():
                self._reports.append(asyncio.ensure_future(context.session.report_progress(1, 2, "running")))
            self._contexts.clear()


def build_form(need: Need) -> dict[str, Any]:
    """Return the form a client's person fills in: whether the call runs, and a field for each value they must name."""
    fields = {"approve": _APPROVE}
    for key, (_, value) in list_fields(need).items():
        what = explain_naming(value, make_visible(get_text(value, "path", ""))[:_LONGEST])
        fields[key] = {
            "type": "string",
            "title": f"Type {what} to let it run",
            "description": make_visible(explain_source(value)),
        }
    return {"type": "object", "properties": fields, "required": ["approve"]}


def list_fields(need: Need) -> dict[str, tuple[str, Mapping[str, Json]]]:
    """Return the values a person has to name, each with the id of its call, by the names of their fields."""
    calls = [as_object(call) for call in get_list(need.request, "calls")]
    wanted = [(get_text(call, "call", ""), value) for call in calls for value in list_to_name(call)]
    return {f"value_{number}": one for number, one in enumerate(wanted, start=1)}


def read_named(need: Need, content: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Return what was typed into the fields of a form, by the ids of the calls."""
    named: dict[str, tuple[str, ...]] = {}
    for key, (call, _) in list_fields(need).items():
        typed = content.get(key)
        if isinstance(typed, str) and typed.strip():
            named[call] = (*named.get(call, ()), typed)
    return named


def build_tool(spec: ToolSpec) -> types.Tool:
    """Return a tool as the protocol describes it; its hints are what we know, not what would please."""
    able = spec.capabilities
    look = spec.effect is Effect.OBSERVATION
    hints = types.ToolAnnotations(
        read_only_hint=look,
        destructive_hint=not look and spec.effect is not Effect.CREATE,
        idempotent_hint=look or bool(able and able.idempotent),
        open_world_hint=able is None or able.external_side_effect or any(t.kind in _WORLD for t in spec.targets),
    )
    schema = dict(spec.parameters)
    return types.Tool(name=spec.name, description=spec.description, input_schema=schema, annotations=hints)


def build_response_result(response: Response) -> types.CallToolResult:
    """Return the outcome of a call, as text and as data."""
    if response.state == "finished" and response.data is not None:
        data = response.data
        said = {"ok": response.ok, "output": data.get("content", "")}
        said |= {key: data[key] for key in ("exit_code", "dropped", "error") if data.get(key) not in (None, "", 0)}
        said |= {"exit_code": data["exit_code"]} if "exit_code" in data else {}
        return build_result(str(said["output"]), said, error=not response.ok)
    problem = response.errors[0]
    more = {key: value for key in _CURES if (value := getattr(problem, key)) is not None}
    return build_failure(problem.code, problem.message, more)


def build_failure(code: str, why: str, more: Mapping[str, Json] | None = None) -> types.CallToolResult:
    """Return why a call did not run, or what is unknown of it, with what would cure it."""
    text = f"not run ({code}): {why}" if code != "outcome_unknown" else f"whether this took effect is unknown: {why}"
    cures = [f"{key}: {json.dumps(value, ensure_ascii=False, sort_keys=True)}" for key, value in (more or {}).items()]
    return build_result("\n".join([text, *cures]), {"ok": False, "code": code, "why": why, **(more or {})}, error=True)


def build_result(text: str, said: Mapping[str, Json], *, error: bool) -> types.CallToolResult:
    """Return a result with text and data."""
    content: list[Any] = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, structured_content=dict(said), is_error=error)
