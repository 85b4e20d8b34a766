"""Taking back what a call changed, checked before and after; and what a call or an undo would do, without doing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from foregate.agent.loop.applying import build_undo_step
from foregate.agent.loop.machine_runner import format_paths, list_file_changes
from foregate.agent.loop.snapshots import Snapshots, UndoStep, build_steps
from foregate.agent.session.session import Session
from foregate.agent.workspace.confinement import seek_turn
from foregate.agent.workspace.workspace import SurveyBounds
from foregate.policy.risk.self_running import RUNS_BY_ITSELF
from foregate.schemas.errors import ForegateError, LogError, WorkspaceError
from foregate.schemas.event import Draft, Event
from foregate.schemas.event_body import (
    BeforeImage,
    Checkpoint,
    EffectUndone,
    OutcomeResolved,
    OutcomeUnknown,
    ToolFinished,
    ToolStarted,
)
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import FileChange
from foregate.schemas.sandbox import SandboxedChanges, decode_changes
from foregate.schemas.tool_call import CallFacts, Change, EvidenceKind, EvidenceRecord, SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind

_UNKNOWN = "it is unknown whether `{}` took effect; look, then say so with `foregate plans resolve` or /resolve"
_NOT_KNOWN_WHAT = "`{}` took effect, but what it changed was not seen; look, then change things back by hand"
_NAMED = 20
"""Changes a message names at most, the newest."""

_AT_WORK = "a command works in a sandbox of this workspace, or is being applied; undo again when it is over"
_THERE = "this ran in a runtime, which keeps what was there before; use `foregate undo` where the runtime runs"


class UndoReport(Struct, frozen=True):
    """What was taken back, or why it was not. `steps` says in words what was done, or with `preview` would be.

    Of an undo that broke off `restored` says what was done all the same and `left` what was not; of one that was
    refused, and of one that was not, both are empty. `note` names a call that may have changed something as well.
    """

    done: bool
    call: str = ""
    tool: str = ""
    resources: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    reason: str = ""
    preview: bool = False
    restored: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    note: str = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """What a person is told of an undo that was not done: why, and what it did and left where it broke off."""
        if not self.left:
            return (self.reason,)
        restored = f"this was done: {'; '.join(self.restored) or 'nothing'}"
        return self.reason, restored, f"this was not: {'; '.join(self.left)}; undo again continues"


class UndoableChange(Struct, frozen=True, omit_defaults=True):
    """A finished call that changed something and was not undone yet."""

    call: str
    tool: str
    before: tuple[BeforeImage, ...]
    changes: tuple[Change, ...]
    images: str = ""


async def undo(session: Session, call_id: str | None = None, preview: bool = False) -> UndoReport:
    """Take back the newest change of the session that was not taken back yet, or that of the call named.

    Nothing is touched unless everything is still as the call left it and can be restored as far as can be told. A
    `checkpoint` announces it; what was restored is compared by hash and recorded as `effect_undone`. Where it breaks
    off, a further `checkpoint` and the report say what is left. Undoing again continues there, in another process too.
    With `preview` only says what would happen. The report has a reason for a change without a way back, for files that
    changed since, for an unknown call, and while a command works in a sandbox of the workspace; raises LogError when
    the log fails.
    """
    if session.running_calls:
        return UndoReport(False, reason="a tool is still running; wait for it or cancel it", preview=preview)
    with ExitStack() as held:
        try:
            is_free = preview or held.enter_context(seek_turn(session.workspace))
        except WorkspaceError as error:
            return UndoReport(False, call_id or "", reason=str(error))
        if not is_free:
            return UndoReport(False, call_id or "", reason=_AT_WORK)
        return await _undo(session, call_id, preview)


async def _undo(session: Session, call_id: str | None, preview: bool) -> UndoReport:
    events = await session.log.read_joined()
    found = choose_change(events, call_id)
    note = describe_unknown_call(events) if call_id is None else ""
    if isinstance(found, str):
        return UndoReport(False, call_id or "", reason=note or found, preview=preview)
    names = tuple(change.resource.id for change in found.changes)
    report = UndoReport(False, found.call, found.tool, names, preview=preview, note=note)
    try:
        inverse = session.tools.inverse(found.tool)
        place = Snapshots(session.workspace, session.policy, session.blobs, inverse)
        steps = _build_steps(found, place)
        again = has_unfinished_undo(events, found.call)
        left = [step for step in steps if not (again and step.is_done)]
        for step in left:
            step.check(again)
    except ForegateError as error:
        return replace(report, reason=str(error))
    words = tuple(step.words for step in left or steps)
    if preview:
        return replace(report, done=True, steps=words)
    if left:
        await session.record(Draft(Checkpoint(undo=found.call, steps=words), "foregate"))
        await session.log.settle()
    try:
        for step in left:
            step.take_back()
        # It is recorded as done below, so it must be on disk before.
        session.workspace.sync()
        for step in steps:
            step.verify()
    except ForegateError as error:
        undone = [step for step in steps if not step.is_done]
        restored = tuple(step.words for step in steps if step not in undone)
        words = tuple(f"{step.words} (in part)" if step.is_partly_done else step.words for step in undone)
        report = replace(report, reason=str(error), restored=restored, left=words)
        body = Checkpoint(undo=found.call, steps=report.left, restored=report.restored, why=report.reason)
        await session.record(Draft(body, "foregate"))
    else:
        report = replace(report, done=True, steps=words)
        await session.record(Draft(build_reverse(found, steps), "foregate"))
    await session.log.settle()
    return report


def _build_steps(found: UndoableChange, place: Snapshots) -> list[UndoStep]:
    if found.images:
        return [build_undo_step(place, found.images, found.changes)]
    return build_steps(found.changes, found.before, place)


class UndoHistory(Struct):
    """What became of the calls of a session, by call id."""

    started: dict[str, ToolStarted] = field(default_factory=dict)
    finished: dict[str, UndoableChange] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    """Calls that cannot be taken back though they may have had an effect, and why."""

    @property
    def undoable_changes(self) -> list[UndoableChange]:
        """The changes that were not taken back yet, oldest first."""
        return [change for call, change in self.finished.items() if call not in self.gone]


def read_undo_history(events: Iterable[Event]) -> UndoHistory:
    """Return what became of the calls."""
    found = UndoHistory()
    started, lost = found.started, found.lost
    for body in (event.body for event in events):
        call = getattr(body, "call", "")
        # What ran in a runtime is taken back there.
        if not isinstance(body, ToolStarted) and call in started and started[call].elsewhere:
            continue
        match body:
            case ToolStarted():
                started[call] = body
                if body.elsewhere:
                    lost[call] = _THERE
            case EffectUndone():
                found.gone.add(call)
            case OutcomeUnknown():
                lost[call] = _UNKNOWN
            case ToolFinished() | OutcomeResolved() if body.changes:
                before, images = (started[call].before, started[call].images) if call in started else ((), "")
                # It goes to the end: of all changes the one found out last is undone first.
                found.finished.pop(call, None)
                found.finished[call] = UndoableChange(call, body.tool, before, body.changes, images)
                lost.pop(call, None)
            case OutcomeResolved(outcome="done"):
                lost[call] = _NOT_KNOWN_WHAT
            case OutcomeResolved():
                lost.pop(call, None)
    return found


def choose_change(events: Iterable[Event], call_id: str | None) -> UndoableChange | str:
    """Return the change to take back, or why nothing can be."""
    found = read_undo_history(events)
    left = found.undoable_changes
    if call_id is None and not left and _THERE in found.lost.values():
        return _THERE
    if call_id is None:
        return left[-1] if left else "nothing that was changed in this session can be undone"
    if call_id in found.gone:
        return f"`{call_id}` has been undone already"
    if call_id in found.finished:
        return found.finished[call_id]
    if call_id in found.lost:
        return found.lost[call_id].format(call_id)
    if call_id in found.started:
        return f"`{call_id}` changed nothing that can be undone"
    named = ", ".join(f"{change.call} ({change.tool})" for change in left[-_NAMED:])
    return f"there is no call `{call_id}` in this session; what can be undone: {named or 'nothing'}"


def describe_unknown_call(events: Iterable[Event]) -> str:
    """Return a sentence on the newest call here with an unknown outcome, "" for none."""
    lost = [call for call, why in read_undo_history(events).lost.items() if why == _UNKNOWN]
    return _UNKNOWN.format(lost[-1]) if lost else ""


def has_unfinished_undo(events: Sequence[Event], call: str) -> bool:
    """Whether a process began to take the call back and did not come to say that it had."""
    return any(isinstance(event.body, Checkpoint) and event.body.undo == call for event in events)


def build_reverse(found: UndoableChange, steps: Sequence[UndoStep]) -> EffectUndone:
    """Return the body of a change that was taken back: the changes an undo makes, and what it has verified."""
    records = []
    for change in found.changes:
        is_repository = change.resource.kind is ResourceKind.REPOSITORY
        kind = EvidenceKind.GIT_STATE if is_repository else EvidenceKind.VERIFICATION_RESULT
        content = change.before if change.resource.kind is not ResourceKind.DIRECTORY else ""
        if change.before:
            records.append(EvidenceRecord(kind, change.resource, content, own_change=True))
    reverse = (Change(change.resource, change.after, change.before, change.mode) for change in reversed(found.changes))
    return EffectUndone(
        call=found.call,
        tool=found.tool,
        resources=tuple(change.resource.id for change in found.changes),
        changes=tuple(reverse),
        evidence=tuple(records),
        steps=tuple(step.words for step in steps),
    )


HELD = (ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.REPOSITORY, ResourceKind.OTHER)
"""Kinds of resources that hold something a call could take away."""


class Preview(Struct, frozen=True):
    """What would become of what a call changes.

    `changes` are its files before and after. There are none where no tool says so, a file is larger than one read, or
    the call would fail; `problem` then says why. `kept` are the resources with a before-image, `lost` those changed
    without one. `unkept` names, by path, what a file has beside its content and would not keep. `paths` says of each
    path what a program has done to it in its sandbox, such as `delete a.txt`.
    """

    changes: tuple[FileChange, ...] = ()
    problem: str = ""
    kept: tuple[SurveyedResource, ...] = ()
    lost: tuple[SurveyedResource, ...] = ()
    unkept: Mapping[str, tuple[str, ...]] = {}
    paths: tuple[str, ...] = ()


def preview_call(session: Session, call_id: str, digest: str) -> Preview | None:
    """Return the prospect of a call a person is asked about just now, None for any other.

    It looks only at what was judged. A path that leads elsewhere since, or a file that holds something else, is a
    problem, as when the call runs.
    """
    asked = session.interaction.asked
    facts = asked.facts.get(call_id) if asked is not None else None
    if facts is None or facts.call.digest != digest:
        return None
    if facts.survey.changes:
        return _preview_sandboxed(session, facts)
    try:
        inverse = session.tools.inverse(facts.call.name)
    except WorkspaceError:
        # Where it cannot be told, the call will not run.
        inverse = None
    snapshots = Snapshots(session.workspace, session.policy, session.blobs, inverse)
    touched = [r for r in facts.resources if r.access.changes and r.kind in HELD]
    kept = tuple(resource for resource in touched if snapshots.has_image(resource))
    changes, problem = _preview_changes(session, facts)
    lost = tuple(resource for resource in touched if resource not in kept)
    return Preview(changes, problem, kept, lost, _find_unkept(session, facts))


def _preview_sandboxed(session: Session, facts: CallFacts) -> Preview:
    """Return what a program has changed in its sandbox: nothing of that is in the workspace, and all can be undone."""
    ended = session.state.open.sandbox if session.state.open is not None else None
    if ended is None:
        return Preview()
    found = SandboxedChanges(decode_changes(session.blobs.get(ended.body.changes)), ended.body.upper)
    changes = list_file_changes(session.workspace, found, session.policy.files.max_read)
    kept = tuple(resource for resource in facts.resources if resource.restorable)
    lost = tuple(resource for resource in facts.resources if not resource.restorable)
    return Preview(tuple(changes), "", kept, lost, paths=tuple(format_paths(found.changes)))


_WRITTEN = ("", RUNS_BY_ITSELF)
"""Why a file is protected that a yes lets a call write."""


def _find_unkept(session: Session, facts: CallFacts) -> dict[str, tuple[str, ...]]:
    """Return what the files a call writes anew would not keep; unknown for tools that are not ours."""
    found: dict[str, tuple[str, ...]] = {}
    for one in facts.resources if facts.spec is not None and facts.spec.provenance == "builtin" else ():
        if one.kind is ResourceKind.FILE and one.access in (Effect.CREATE, Effect.EDIT) and one.protected in _WRITTEN:
            with suppress(WorkspaceError):
                found[one.id] = session.workspace.list_unkept(one.id)
    return {path: names for path, names in found.items() if names}


def _preview_changes(session: Session, facts: CallFacts) -> tuple[tuple[FileChange, ...], str]:
    if any(resource.size > session.policy.files.max_read for resource in facts.resources):
        return (), ""
    try:
        with SurveyBounds(facts.survey):
            return tuple(session.tools.preview(facts.call)), ""
    except ForegateError as error:
        return (), str(error)
    except Exception as error:
        return (), f"it cannot be carried out ({type(error).__name__})"


def preview_calls(session: Session, need: Need) -> dict[str, Preview]:
    """Return the prospects of the calls of an approval sheet, by id, of those the session judged itself."""
    found = {call: preview_call(session, call, digest) for call, digest in zip(need.calls, need.digests, strict=True)}
    return {call: one for call, one in found.items() if one is not None}


def preview_undo(session: Session, found: UndoableChange) -> list[FileChange]:
    """Return what taking a change back would make of its files, those left out that are gone, special or too large."""
    back, bound = [], session.policy.files.max_read
    special = {image.id for image in found.before if image.type not in ("", "file")}
    for change in found.changes:
        path = change.resource.id
        if change.resource.kind is not ResourceKind.FILE or path in special:
            continue
        try:
            now = session.workspace.look(path)
            image = session.blobs.get(change.before) if change.before else b""
            if max(now.size, len(image)) <= bound:
                back.append(FileChange(path, session.workspace.read(path) if now.kind else None, image))
        except ForegateError:
            continue
    return back


_ENCODER, _DECODER = msgspec.json.Encoder(), msgspec.json.Decoder(dict[str, Preview])


def encode_previews(session: Session, need: Need) -> bytes:
    """Return what the calls of an approval would change as things are, b"" where nothing is known of it."""
    try:
        found = preview_calls(session, need) if need.gate == "approval" else {}
    except ForegateError:
        # The question is asked all the same, and says no more than its calls do.
        return b""
    return _ENCODER.encode(found) if found else b""


def decode_previews(data: bytes) -> dict[str, Preview]:
    """Return what was kept of the calls of a question, by their ids; raise LogError for what is none of ours."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise LogError(f"what the question's calls would change cannot be read ({error})") from None
