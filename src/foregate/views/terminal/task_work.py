"""What a task did, summed up when it ends: files and lines, commands and results, messages and other effects, what was
not done, how to undo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from rich.text import Text

from foregate.agent.loop.changes_made import ChangesMade
from foregate.schemas.event import Body, NeedAnswered
from foregate.schemas.event_body import (
    CallAnswered,
    EffectUndone,
    Kind,
    OutcomeResolved,
    OutcomeUnknown,
    TaskEnded,
    ToolFinished,
    ToolStarted,
)
from foregate.schemas.tool_spec import Effect
from foregate.views.terminal.event_rows import is_cancelled, name_call, read_output
from foregate.views.terminal.layout import CARE, format_labelled, pluralise
from foregate.views.terminal.made import diff_files, format_counts

SUMMED_UP: tuple[Kind, ...] = (
    "tool_started",
    "tool_finished",
    "call_answered",
    "outcome_unknown",
    "outcome_resolved",
    "effect_undone",
    "need_answered",
    "task_ended",
)
"""The kinds of events that a summary is made of."""
MOST = 6
"""Files, commands and calls not done that are named; further ones are counted."""
_LONGEST = 160
"""Characters of a row's text."""
_CANCELLED = "cancelled, nothing of it took effect"
_FEW = 60
"""Characters of commands that are named though they say no more."""
_WELL = "ended well"
"""How a command ended that says no more of it."""


class TaskWork:
    """What the calls of a task came to, as they end."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[int, int, str]] = {}
        """By path how many lines were added and removed, and what else became of it in words."""
        self.more_files = 0
        self.commits: list[str] = []
        self.commands: list[tuple[str, str]] = []
        """Each command that ran, and its result."""
        self.sent: list[str] = []
        """Calls with an effect that is in no file and of no command: a message, an order, a task on a server."""
        self.not_done: dict[tuple[str, str], str] = {}
        """By tool and target: why a call did not run, failed, or has an unknown outcome."""
        self.changed: list[str] = []
        """The calls that changed something."""
        self.undone: list[str] = []
        self.advised = 0
        """Requests to those who advise: the planner and the critic."""
        self._acting: set[str] = set()
        self.ended: TaskEnded | None = None

    @property
    def is_worth_a_summary(self) -> bool:
        """Whether there is more to say than the answer does."""
        told = len(self.commands) > 1 or any(how != _WELL for _, how in self.commands)
        return bool(told or self.files or self.more_files or self.not_done or self.changed or self.sent)

    def forget_told(self, told: str) -> None:
        """Leave out the calls that were not done and that stand by name in what was said already.

        Of a task that was cancelled, its end and the row of the call have said so.
        """
        missed = {key: why for key, why in self.not_done.items() if f"`{name_call(*key)}`" not in told}
        if self.ended is not None and self.ended.status == "cancelled":
            missed = {key: why for key, why in missed.items() if why != _CANCELLED}
        self.not_done = missed

    def add(self, body: Body, made: ChangesMade | None = None) -> None:
        """Take in what an event says; `made` is what the call of a `tool_finished` changed."""
        match body:
            case ToolStarted() if body.effect is not Effect.OBSERVATION:
                self._acting.add(body.call)
            case ToolFinished(early=False):
                self.add_run(body, made)
            case CallAnswered() | OutcomeUnknown():
                self.add_missed(body)
            case OutcomeResolved():
                self.not_done.pop((body.tool, body.target), None)
                if body.outcome == "not_done":
                    self.not_done[body.tool, body.target] = "it was found not to have taken effect"
            case EffectUndone():
                self.changed = [call for call in self.changed if call != body.call]
                self.undone.append(f"{name_call(body.tool, ', '.join(body.resources))}")
            case NeedAnswered() if body.answer.who != "person":
                self.advised += body.model_calls
            case TaskEnded():
                self.ended = body

    def add_run(self, body: ToolFinished, made: ChangesMade | None) -> None:
        """Count a call that ran."""
        said, key = read_output(body), (body.tool, body.target)
        self.not_done.pop(key, None)
        if body.exit_code is not None:
            how = said.result or said.how or (_WELL if body.ok else "failed")
            self.commands.append((name_call(*key), f"{how} ({said.how})" if said.result and said.how else how))
        elif not body.ok:
            why = f"failed: {said.lines[-1] if said.lines else body.error}"
            self.not_done[key] = _CANCELLED if is_cancelled(body) else why
        elif not body.changes and body.call in self._acting:
            self.sent.append(name_call(*key))
        if body.changes:
            self.changed.append(body.call)
        if made is not None:
            self.add_changes(made)

    def add_changes(self, made: ChangesMade) -> None:
        """Count what a call made of files."""
        for file in diff_files(made):
            added, removed, words = self.files.get(file.path, (0, 0, ""))
            came, went = file.counts
            self.files[file.path] = (added + came, removed + went, file.words if file.words != "" else words)
        self.more_files += made.unread
        self.commits += (f"{commit.id} {commit.subject}" for commit in made.commits)

    def add_missed(self, body: CallAnswered | OutcomeUnknown) -> None:
        """Count a call that did not run, or whose outcome is unknown."""
        if isinstance(body, OutcomeUnknown):
            self.not_done[body.tool, body.target] = f"nobody can say whether it took effect ({body.reason})"
        elif body.change or body.ruling == "deny":
            self.not_done[body.tool, body.target] = f"{body.code}: {body.message.partition('; ')[0]}"


def is_told(remark: str, blocker: str) -> bool:
    """Whether what blocks a task names every call that a remark is about."""
    parts = remark.removeprefix("[Foregate: ").removesuffix("]").split("; ")
    return all(part.startswith("`") and f"`{part[1:].partition('`')[0]}`" in blocker for part in parts)


def format_work(work: TaskWork, width: int, undo: str = "", currency: str = "") -> Iterator[Text]:
    """Yield the summary; `undo` says how to take a change back, with `{call}` for the newest call that made one, and
    `currency` what a cost is counted in."""
    if work.files or work.more_files:
        yield from _format_named("changed", _describe_files(work), width)
    yield from _format_each("commits", work.commits, width)
    yield from _format_each("done", work.sent, width)
    yield from _format_each("ran", list(_describe_commands(work)), width)
    missed = [f"{name_call(*key)}: {why}" for key, why in work.not_done.items()]
    yield from _format_each("not done", missed, width, CARE)
    yield from _format_each("undone", work.undone, width)
    if work.changed and undo:
        yield from format_labelled("undo", undo.format(call=work.changed[-1]), width)
    if (ended := work.ended) is not None:
        spent = [pluralise(ended.model_calls + work.advised, "request"), f"{ended.tokens:,} tokens"]
        spent += [f"{ended.cost / 1_000_000:.4f} {currency}".strip()] if ended.cost else []
        spent += [f"{ended.duration} s"] if ended.duration else []
        yield from format_labelled("spent", ", ".join(spent), width, "dim")


def _describe_commands(work: TaskWork) -> Iterator[str]:
    """Yield the commands with a result, and the others together, by name where they are few."""
    well = [what for what, how in work.commands if how == _WELL]
    yield from (f"{what}: {how}" for what, how in work.commands if how != _WELL)
    if well:
        named = ", ".join(dict.fromkeys(well))
        is_named = len(named) <= _FEW or len(well) == 1
        yield f"{named if is_named else pluralise(len(well), 'command')}: {_WELL}"


def _describe_files(work: TaskWork) -> str:
    count = len(work.files) + work.more_files
    added = sum(came for came, _, _ in work.files.values())
    removed = sum(went for _, went, _ in work.files.values())
    named = []
    for path, (came, went, words) in list(work.files.items())[:MOST]:
        named.append(" ".join(filter(None, (path, words, format_counts(came, went)))))
    if count > len(named):
        named.append(f"and {count - len(named)} more")
    much = " ".join(filter(None, (pluralise(count, "file"), format_counts(added, removed))))
    return f"{much}: {', '.join(named)}" if count > 1 else named[0]


def _format_each(label: str, values: Sequence[str], width: int, style: str = "") -> Iterator[Text]:
    """Yield a row for each, the newest where there are too many."""
    if len(values) > MOST:
        values = [f"{len(values) - MOST} more, and", *values[-MOST:]]
    for number, value in enumerate(values):
        yield from _format_named("" if number else label, value, width, style)


def _format_named(label: str, value: str, width: int, style: str = "") -> Iterator[Text]:
    value = value.replace("\n", " ")
    shown = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
    yield from format_labelled(label, shown, width, label_style=style or "dim")


class Hints(Struct, frozen=True):
    """What is said of a call, with `{call}` for its name; "" says nothing."""

    show: str = ""
    undo: str = ""
    settle: str = ""


IN_CHAT = Hints(
    show="; /show {call} shows all",
    undo="/undo takes back the last change ({call}), /undo CALL another",
    settle="say /resolve {call} done, or not-done",
)


def name_commands(session: str) -> Hints:
    """Return what is to be typed where no chat goes on."""
    chat = f"`foregate chat --resume {session}`"
    return Hints(
        show=f"; {chat}, then /show {{call}} shows all",
        undo=f"`foregate undo {session}` takes back the last change ({{call}})",
        settle=f"begin {chat} and say /resolve {{call}} done, or not-done",
    )
