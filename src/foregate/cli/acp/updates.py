"""What a session's events are to an editor: the model's words, calls and their diffs, plans, and Foregate's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from acp.helpers import (
    SessionUpdate,
    ToolCallContentVariant,
    plan_entry,
    start_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message_text,
    update_current_mode,
    update_plan,
    update_tool_call,
    update_user_message_text,
)
from acp.schema import FileEditToolCallContent, PlanEntryStatus, ToolCallLocation, ToolKind

from foregate.agent.loop.changes_made import read_changes_made
from foregate.evidence.state.plan import PlanState
from foregate.schemas.event import Event, ModelResponded, NeedAnswered
from foregate.schemas.event_body import (
    CallAnswered,
    EffectUndone,
    OutcomeResolved,
    OutcomeUnknown,
    PolicyChanged,
    TaskEnded,
    TaskPaused,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json, get_text
from foregate.schemas.task_plan import PlanProposed, PlanStepChanged, TaskStatus
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Effect, ResourceKind, ToolSpec
from foregate.schemas.visible import make_visible
from foregate.views.terminal.event_rows import name_call
from foregate.views.terminal.screen import restore_sent_response

if TYPE_CHECKING:
    from foregate.agent.session.session import Session

_FILES = (ResourceKind.FILE, ResourceKind.DIRECTORY)
_PLACES = (ResourceKind.URL, ResourceKind.HOST)
# "````": a fence around text must be longer than any in it.
_TICKS = compile_late(r"`{3,}")
_TITLE = 200
KINDS: Mapping[Effect, ToolKind] = {
    Effect.CREATE: "edit",
    Effect.EDIT: "edit",
    Effect.DELETE: "delete",
    Effect.MOVE: "move",
    Effect.COMMIT: "execute",
    Effect.EXECUTE: "execute",
}
"""What sort of thing an effect is, as editors sort them; any other is none of theirs."""
_STEPS: dict[TaskStatus, PlanEntryStatus] = {"pending": "pending", "paused": "pending", "running": "in_progress"}


class Updates:
    """Turns the events of a session, and of its child tasks, into what an editor is told of them, in order.

    With `replaying`, they are those of an earlier process: the person's messages and the model's whole words are told
    as well, for nobody has seen them stream.
    """

    def __init__(self, session: Session, *, replaying: bool = False) -> None:
        self._session, self._replaying = session, replaying
        self._streamed = self._answer = ""
        self._known: dict[str, str] = {}
        self._plan = PlanState()

    def become_live(self) -> Updates:
        """Report what happens from now on; the calls reported so far stay known."""
        self._replaying, self._streamed = False, ""
        return self

    def add_text(self, piece: str) -> Iterator[SessionUpdate]:
        """Yield what a piece of the model's text that arrives is."""
        if piece:
            self._streamed += piece
            yield update_agent_message_text(piece)

    def add_event(self, event: Event) -> Iterator[SessionUpdate]:
        """Yield what an event is, nothing for most kinds."""
        own = event.session == self._session.name
        if own:
            self._plan.apply(event)
        match event.body:
            case UserMessage(text=text) if own and self._replaying and event.actor == "user":
                yield update_user_message_text(text)
            case ModelResponded() as body:
                yield from self._add_response(event, body)
            case ToolStarted() as body if not body.early:
                yield from self._start_call(event, body)
            case ToolFinished() as body if not body.early:
                yield from self._finish_call(event, body)
            case CallAnswered() as body:
                ruled: dict[str, Json] = {"ruling": body.ruling, "code": body.code, "message": body.message}
                yield from self._end_call(event, body, "failed", quote_text(f"{body.message} ({body.code})"), ruled)
            case OutcomeUnknown() as body:
                why = f"nobody can say whether it took effect ({body.reason}); look before you go on"
                yield from self._end_call(event, body, "failed", quote_text(why), {"outcome": "unknown"})
            case OutcomeResolved() as body:
                done: bool = body.outcome == "done"
                yield from self._end_call(event, body, "completed" if done else "failed", [], {"outcome": body.outcome})
            case EffectUndone(tool=tool, resources=resources) if own:
                yield update_agent_message_text(quote_own(f"undone: {tool} {', '.join(resources)}"))
            case PlanProposed() | PlanStepChanged() if own:
                yield self.build_plan()
            case NeedAnswered(answer=answer) if own and answer.gate == "plan_results":
                yield update_agent_message_text(get_text(answer.value or {}, "answer", ""))
            case PolicyChanged(mode=str(mode)) if own:
                yield update_current_mode(mode)
            case TaskPaused(question=str(question)) if own:
                yield update_agent_message_text(f"\n\n{question}")
            case TaskEnded() as body if own and self._replaying:
                yield from self._replay_end(body)

    def build_plan(self) -> SessionUpdate:
        """Return the plan as it stands."""
        entries = []
        for step in self._plan.steps.values():
            title = step.task.reason or f"{step.task.action} {step.task.target}".strip() or "a task"
            ended = "" if step.status in ("pending", "running", "done") else f" ({step.status})"
            entries.append(plan_entry(make_visible(f"{title}{ended}"), status=_STEPS.get(step.status, "completed")))
        return update_plan(entries)

    def name_call(self, call: str, digest: str) -> str:
        """Return the id an editor knows a call by, "" for one it was not told of.

        Calls of child tasks have ids of their own, for each session numbers them anew.
        """
        number = self._known.get(digest, "")
        return number if number == call or number.endswith(f".{call}") else ""

    def _add_response(self, event: Event, body: ModelResponded) -> Iterator[SessionUpdate]:
        streamed, self._streamed, self._answer = self._streamed, "", body.text.strip()
        if event.session == self._session.name and body.text.startswith(streamed):
            yield from (update_agent_message_text(rest) for rest in [body.text[len(streamed) :]] if rest)
        if body.continues is not None:
            return
        for call in restore_sent_response(body).calls:
            yield self._announce(event, call)

    def _replay_end(self, body: TaskEnded) -> Iterator[SessionUpdate]:
        """Yield what Foregate said when a task ended: its remark behind the answer, and what was in the way."""
        if body.text.startswith(self._answer) and (remark := body.text.removeprefix(self._answer).strip()):
            yield update_agent_message_text(f"\n\n{make_visible(remark)}")
        if body.status != "completed":
            yield update_agent_message_text(quote_own(f"{body.status.replace('_', ' ')}: {body.report.blocker}"))

    def _announce(self, event: Event, call: ToolCall) -> SessionUpdate:
        """Return the beginning of a call that a response asks for."""
        spec, number = self._session.catalogue.get(call.name), self._number(event, call.id)
        self._known[call.digest] = number
        targets = list_targets(call, spec)
        return start_tool_call(
            number,
            build_title(call.name, " ".join(targets)),
            kind=find_kind(spec),
            status="pending",
            locations=self._locate(targets if is_of_file(spec) else ()),
            raw_input=dict(call.arguments) if call.arguments is not None else call.raw,
        )

    def _start_call(self, event: Event, body: ToolStarted) -> Iterator[SessionUpdate]:
        number, title = self._number(event, body.call), build_title(body.tool, body.target)
        if number in self._known.values():
            yield update_tool_call(number, title=title, status="in_progress")
            return
        spec = self._session.catalogue.get(body.tool)
        places = self._locate([body.target] if body.target and is_of_file(spec) else ())
        # A read that Foregate makes for the model, or a check of its own.
        self._known[body.permit.digest] = number
        yield start_tool_call(number, title, kind=find_kind(spec), status="in_progress", locations=places)

    def _finish_call(self, event: Event, body: ToolFinished) -> Iterator[SessionUpdate]:
        made = read_changes_made(self._session, body) if body.changes else None
        content: list[ToolCallContentVariant] = []
        touched: list[str] = []
        for file in made.files if made is not None else ():
            touched.append(file.path)
            if file.problem:
                content += quote_text(f"{file.path}: changed; {file.problem}")
            else:
                content.append(build_diff(self._session.workspace.root, file.path, file.before, file.after))
        if body.content and not (content and body.ok and body.exit_code is None):
            content += quote_text(body.content)
        told: dict[str, Json] = {"ok": body.ok, "output": body.content}
        told |= {"exit_code": body.exit_code} if body.exit_code is not None else {}
        told |= {"left_out_bytes": body.dropped} if body.dropped else {}
        told |= {"error": body.error} if body.error else {}
        yield from self._end_call(event, body, "completed" if body.ok else "failed", content, told, touched)

    def _end_call(
        self,
        event: Event,
        body: ToolFinished | CallAnswered | OutcomeUnknown | OutcomeResolved,
        status: str,
        content: Sequence[ToolCallContentVariant],
        told: dict[str, Json],
        touched: Sequence[str] = (),
    ) -> Iterator[SessionUpdate]:
        yield update_tool_call(
            self._number(event, body.call),
            title=build_title(body.tool, body.target),
            status="completed" if status == "completed" else "failed",
            content=content or None,
            locations=self._locate(touched),
            raw_output=told,
        )

    def _number(self, event: Event, call: str) -> str:
        child = event.session.removeprefix(self._session.name).strip(".")
        return f"{child}.{call}" if child else call

    def _locate(self, paths: Sequence[str]) -> list[ToolCallLocation] | None:
        root = self._session.workspace.root
        return [ToolCallLocation(path=str(root / path)) for path in paths] or None


def find_kind(spec: ToolSpec | None) -> ToolKind:
    """Return what sort of thing a tool does, as editors sort them."""
    if spec is None:
        return "other"
    if spec.effect is Effect.OBSERVATION:
        if any(target.kind in _PLACES for target in spec.targets):
            return "fetch"
        return "read" if is_of_file(spec) else "other"
    return KINDS.get(spec.effect, "other")


def is_of_file(spec: ToolSpec | None) -> bool:
    """Whether what a tool of ours names first is a file or a folder of the workspace."""
    own = spec.targets if spec is not None and spec.provenance == "builtin" else ()
    return bool(own) and own[0].kind in _FILES


def list_targets(call: ToolCall, spec: ToolSpec | None) -> list[str]:
    """Return what a call says it is about: the words of its first parameter that names a target."""
    for target in spec.targets if spec is not None else ():
        said = (call.arguments or {}).get(target.parameter)
        if isinstance(said, (str, list)):
            return [said] if isinstance(said, str) else [str(word) for word in said]
    return []


def build_title(tool: str, target: str) -> str:
    """Return what a call is called, on one line."""
    title = make_visible(name_call(tool, target))
    return title if len(title) <= _TITLE else f"{title[:_TITLE]}…"


def build_diff(root: Path, path: str, before: bytes | None, after: bytes | None) -> FileEditToolCallContent:
    """Return the old and the new text of a file; the new one is empty where the file is gone."""
    old = before.decode("utf-8", "replace") if before is not None else None
    return tool_diff_content(str(root / path), (after or b"").decode("utf-8", "replace"), old)


def quote_text(text: str) -> list[ToolCallContentVariant]:
    """Return text of others as editors show it: unchanged, never read as Markdown or as a link."""
    return [tool_content(text_block(fence_text(make_visible(text, lines=True))))]


def fence_text(text: str) -> str:
    """Return a text behind a fence that nothing in it can close."""
    longest = max((len(found) for found in _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"


def quote_own(text: str) -> str:
    """Return words of Foregate among those of a model, as a paragraph."""
    return f"\n\n[Foregate: {make_visible(text)}]\n\n"
