"""Tools that run in another process: what it says is checked, and believed no further than the policy lets it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count

from msgspec.structs import replace

from foregate.agent.tools.remote_connection import RuntimeConnection
from foregate.agent.tools.remote_protocol import CallToSurvey, Look, Problem, Recall, Request, Response, Seen, Welcome
from foregate.agent.tools.tool import BaseToolSource
from foregate.gates.support.schema_check import SchemaCheck
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, RuntimeLost, UsageError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.protocols import Reconciled, RunContext
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Origin, Survey, ToolCall, ToolResult
from foregate.schemas.tool_spec import ToolSpec

# "read_file".
_NAME = compile_late(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_DESCRIPTION, _ID, _RECORDS, _RESOURCES = 4000, 4096, 256, 256
_AT_ONCE = 8
_TOGETHER = 65536
"""Calls one look is about, and characters of their arguments."""
_LONGEST = 3600
_MARGIN = 5
"""Seconds after a tool's own time in which its runtime still answers that it was over."""


class RemoteTools(BaseToolSource):
    """The tools of a runtime for one session, whose name is part of each request's id."""

    def __init__(
        self, connection: RuntimeConnection, specs: Mapping[str, ToolSpec] | None = None, session: str = ""
    ) -> None:
        self._connection, self._session = connection, session
        self._specs = dict(specs) if specs is not None else build_specs(connection.welcome, connection)
        self._seen: dict[str, Survey] = {}
        self._looks = count(1)

    def for_session(self, session: str) -> RemoteTools:
        return RemoteTools(self._connection, self._specs, session)

    def specs(self) -> Sequence[ToolSpec]:
        return list(self._specs.values())

    async def refresh(self, calls: Sequence[ToolCall]) -> None:
        """Have the runtime survey calls, for `survey`; raise RuntimeLost where it cannot be asked."""
        wanted = [call for call in calls if call.name in self._specs and call.arguments is not None]
        found: dict[str, Survey] = {}
        for part in split_calls(wanted):
            surveyed = tuple(CallToSurvey(call.name, call.raw) for call in part)
            look = Look(f"look:{next(self._looks)}:{self._session}", surveyed)
            try:
                said = await self._connection.ask(partial(replace, look), within=self._connection.policy.timeout)
            except UsageError:
                # Too large to be said, so nobody looks at it, and it is held.
                continue
            surveys = said.surveys if isinstance(said, Seen) else ()
            if len(surveys) == len(part):
                found |= {call.digest: parse_survey(data) for call, data in zip(part, surveys, strict=True)}
        self._seen = found

    def survey(self, call: ToolCall) -> Survey | None:
        """Return what the runtime found at the last survey, None where it did not survey this call."""
        return self._seen.get(call.digest)

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        """Have the runtime run a call and return its result; raise RuntimeLost where it cannot tell."""
        id, policy = self._id(call.id), self._connection.policy  # noqa: A001
        until = time.monotonic() + self._specs[call.name].timeout - policy.patience - _MARGIN

        def request() -> Request:
            left = max(0, round((until - time.monotonic()) * 1000))
            return Request(id, call.name, call.raw, call.digest, left, context.approved)

        try:
            said = await self._connection.ask(request)
        except UsageError as error:
            return ToolResult(False, str(error), error="too_large", origin=Origin.EXTERNAL)
        except BaseException:
            await self._connection.cancel(id)
            raise
        if not isinstance(said, Response):
            raise RuntimeLost("the runtime answered something else than what was asked")
        return build_result(said)

    async def reconcile(self, call: str, digest: str) -> Reconciled | None:
        """Return the outcome of an earlier call of the session, None where the runtime cannot tell, or not now."""
        id = self._id(call)  # noqa: A001
        try:
            policy = self._connection.policy
            said = await self._connection.ask(lambda: Recall(id, digest), patience=0, within=policy.timeout)
        except RuntimeLost:
            return None
        if not isinstance(said, Response) or said.state not in ("finished", "refused"):
            return None
        result = build_result(said)
        if said.state == "refused" and said.errors and said.errors[0].code == "duplicate_id":
            return None
        ran = said.state == "finished" and (result.ok or bool(result.changes) or result.exit_code is not None)
        return Reconciled(ran, result)

    def _id(self, call: str) -> str:
        return f"{self._session}:{call}"


def split_calls(calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
    """Return calls in groups that are looked at together: a few, and no large one beside others."""
    found: list[list[ToolCall]] = []
    for call in calls:
        if found and len(found[-1]) < _AT_ONCE and sum(len(one.raw) for one in (*found[-1], call)) <= _TOGETHER:
            found[-1].append(call)
        else:
            found.append([call])
    return found


def build_specs(welcome: Welcome | None, connection: RuntimeConnection) -> dict[str, ToolSpec]:
    """Return a runtime's tools as ours; raise UsageError for what no honest runtime offers."""
    tools = welcome.tools if welcome is not None else ()
    policy = connection.policy
    if len(tools) > policy.max_tools:
        most = f"the {policy.max_tools} of runtime.max_tools"
        raise UsageError(f"the runtime offers {len(tools)} tools, more than {most}")
    found: dict[str, ToolSpec] = {}
    for data in tools:
        try:
            spec = strict_json.load(ToolSpec, data)
            SchemaCheck(spec.parameters, closed=False)
        except Exception as error:
            # A schema can be wrong in more ways than its library names.
            why = strict_json.scrub(str(error)).partition("\n")[0][:200]
            raise UsageError(f"the runtime offers a tool that is none: {why}") from None
        if not _NAME.fullmatch(spec.name) or spec.name in found:
            raise UsageError(f"the runtime offers a tool with an unusable name, `{strict_json.scrub(spec.name)[:64]}`")
        timeout = min(max(1, spec.timeout), _LONGEST) + policy.patience + _MARGIN
        description = strict_json.scrub(spec.description)[:_DESCRIPTION]
        found[spec.name] = replace(spec, description=description, provenance="remote", timeout=timeout, hints={})
    return found


def parse_survey(data: Mapping[str, Json]) -> Survey:
    """Return what a runtime says it found; what cannot be read is a problem, which holds the call."""
    try:
        found = strict_json.load(Survey, data)
    except (InvalidJson, ValueError):
        return Survey("", problem="the runtime's look at this cannot be read")
    names = (*(r.id for r in found.resources), *(found.command.argv if found.command else ()))
    if len(found.resources) > _RESOURCES or any(len(name) > _ID for name in names):
        return Survey("", problem="the runtime names too much, or too long, to be judged")
    problem = strict_json.scrub(found.problem)[:_ID]
    return replace(found, atoms=(), secrets=found.secrets[:_RESOURCES], problem=problem)


def build_result(response: Response) -> ToolResult:
    """Return what a runtime answers as a result: its words are external, and it charges nothing."""
    if response.state == "finished":
        try:
            ran = strict_json.load(ToolResult, response.data or {})
        except (InvalidJson, ValueError):
            return ToolResult(False, "the runtime's answer cannot be read", error="runtime_answer", unknown=True)
        evidence = [replace(r, origin=Origin.EXTERNAL) for r in ran.evidence if len(r.resource.id) <= _ID]
        changes = [change for change in ran.changes if len(change.resource.id) <= _ID]
        seen, changed, dropped = tuple(evidence[:_RECORDS]), tuple(changes[:_RECORDS]), max(0, ran.dropped)
        error = "" if ran.ok else (ran.error or "tool_failed")[:64]
        return ToolResult(
            ran.ok, ran.content, seen, changed, Origin.EXTERNAL, error, dropped=dropped, exit_code=ran.exit_code
        )
    problem = response.errors[0] if response.errors else Problem("runtime_answer", "it gave no reason")
    if response.state == "refused":
        why = {"not_run": problem.code, "why": problem.message, "remedy": problem.remedy, "observed": problem.observed}
        said = strict_json.encode_record({key: value for key, value in why.items() if value is not None}).decode()
        return ToolResult(False, said, error=problem.code[:64], origin=Origin.EXTERNAL)
    said = f"the runtime cannot tell its outcome ({problem.message[:200]})"
    return ToolResult(False, said, error="runtime_unknown", unknown=True, origin=Origin.EXTERNAL)
