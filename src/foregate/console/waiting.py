"""What waits for a person: the open questions, the sheet of one as the terminal shows it, and answering it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from io import StringIO

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from foregate.assembly.approvals import Approvals
from foregate.assembly.identity import find_identity
from foregate.console.form import ConsoleForm
from foregate.gates.support.declaring import list_asked
from foregate.gates.support.permitting import NARROW as PROJECT
from foregate.gates.support.permitting import WIDER
from foregate.gates.support.replies import build_reply, list_choices
from foregate.schemas.errors import UsageError
from foregate.schemas.judgement import Need
from foregate.schemas.question import Question
from foregate.schemas.sources import explain_naming, explain_source, list_to_name
from foregate.schemas.strict_json import Json, as_object, get_list, get_text
from foregate.views.pages.texts import VisibleText
from foregate.views.terminal.approval_rows import describe_standing, explain_delivery, format_about, format_asked
from foregate.views.terminal.blocks import name_path
from foregate.views.terminal.layout import BAD, CARE, GOOD, NAME

WIDE, NARROW = 96, 40
"""Columns of rows for a screen, and for a telephone held upright."""
_COLOURS = {GOOD: "good", CARE: "care", BAD: "bad", NAME: "name"}


class RowPiece(Struct, frozen=True):
    """A part of a row, and what is special about it: names of classes, "" for nothing."""

    text: VisibleText
    kind: str = ""


def split_rows(rows: Iterable[Text]) -> Iterator[tuple[RowPiece, ...]]:
    """Yield rows of the terminal as their parts."""
    console = Console(file=StringIO(), width=WIDE, color_system="256", markup=False, emoji=False, highlight=False)
    for row in rows:
        yield tuple(RowPiece(VisibleText(part.text), _name_style(part)) for part in row.render(console) if part.text)


def _name_style(part: Segment) -> str:
    style = part.style
    if style is None:
        return ""
    colour = _COLOURS.get(style.color.name, "") if style.color is not None else ""
    return " ".join(filter(None, (colour, "strong" if style.bold else "", "faint" if style.dim else "")))


ELSEWHERE = (PROJECT, WIDER)
"""Choices that hold beyond the session; they are made at the sheet of the session itself."""
_SAYS = {
    "yes": "Yes, once",
    "grant": "Yes, for this session",
    "no": "No",
    "anyway": "Run it anyway",
    "stop": "Stop here",
    "more": "Say more",
    "step": "Yes, but ask before each task",
    "edit": "Change the plan",
    "go_on": "Continue with the rest",
    "retry": "Try it again",
    "roll_back": "Roll back",
}
_CAREFUL = ("no", "stop", "roll_back")
_WORDED = ("more", "edit", "no", "stop")
Rows = tuple[tuple[RowPiece, ...], ...]


class QuestionRow(Struct, frozen=True):
    """What a list says of an open question."""

    session: str
    event: int
    name: str
    standing: str
    asks: str
    calls: tuple[str, ...]
    asked_at: str
    expires_at: str
    held_by: str


class Choice(Struct, frozen=True):
    """A button: the word it answers with, what it says, and whether it is the careful way."""

    word: str
    says: str
    is_careful: bool


class NamedValue(Struct, frozen=True):
    """A value that a person types before its call may run: where it stands, what to type, who said it."""

    field: str
    call: int
    what: str
    text: str
    said: str


class OwnField(Struct, frozen=True):
    """A field of what a tool returned, which others may have written unless a person says that they cannot."""

    box: str
    tool: str
    name: str
    value: str


class QuestionPage(Struct, frozen=True):
    """A question as a page shows it: `wide` and `narrow` are the sheet at two widths of a terminal."""

    row: QuestionRow
    gate: str
    wide: Rows
    narrow: Rows
    choices: tuple[Choice, ...]
    calls: tuple[tuple[int, str], ...]
    to_name: tuple[NamedValue, ...]
    fields: tuple[OwnField, ...]
    takes_words: bool
    beyond: bool


class Answered(Struct, frozen=True):
    """An answer that was taken: what, by whom, and what comes next."""

    name: str
    session: str
    word: str
    by: str
    next: str


async def list_waiting(approvals: Approvals) -> list[QuestionRow]:
    """Return what is open, the newest first."""
    rows = [build_row(await approvals.describe(question)) for question in await approvals.list()]
    return sorted(rows, key=lambda row: row.asked_at, reverse=True)


def build_row(about: Mapping[str, Json]) -> QuestionRow:
    """Return a question's row from what a list says of it."""
    calls = [as_object(call) for call in get_list(about, "calls")]
    named = tuple(f"{get_text(call, 'tool', '')} {get_text(call, 'target', '')}".strip() for call in calls)
    return QuestionRow(
        session=get_text(about, "session"),
        event=int(str(about["event"])),
        name=get_text(about, "question"),
        standing=describe_standing(about),
        asks=get_text(about, "asks", ""),
        calls=named,
        asked_at=get_text(about, "asked_at", ""),
        expires_at=get_text(about, "expires_at", ""),
        held_by=get_text(about, "held_by", ""),
    )


async def show_question(approvals: Approvals, name: str) -> QuestionPage:
    """Return an open question; raise UsageError, one sentence, for one that is closed, with how it was."""
    question = await approvals.show(name)
    about = await approvals.describe(question)
    need = question.need
    calls = [as_object(call) for call in get_list(need.request, "calls")] if "calls" in need.request else []
    choices = list_choices(need)
    row = build_row(about)
    numbered = tuple(enumerate(row.calls, start=1)) if need.gate == "approval" else ()
    return QuestionPage(
        row=row,
        gate=need.gate,
        wide=_build_sheet(approvals, question, about, WIDE),
        narrow=_build_sheet(approvals, question, about, NARROW),
        choices=tuple(Choice(one, _SAYS.get(one, one), one in _CAREFUL) for one in choices if one not in ELSEWHERE),
        calls=numbered if len(numbered) > 1 else (),
        to_name=tuple(_list_named(calls)) if need.gate == "approval" else (),
        fields=tuple(_list_fields(need)),
        takes_words=any(one in _WORDED for one in choices),
        beyond=any(one in ELSEWHERE for one in choices),
    )


def _build_sheet(approvals: Approvals, question: Question, about: Mapping[str, Json], width: int) -> Rows:
    """Return the sheet as the terminal shows it in `width` columns, with nothing cut."""
    rows = [*format_about(about, width), *format_asked(question.need, approvals.read_previews(question), width)]
    return tuple(split_rows(row for row in rows if row.plain))


def _list_named(calls: list[Mapping[str, Json]]) -> list[NamedValue]:
    found: list[NamedValue] = []
    for number, call in enumerate(calls, start=1):
        for value in list_to_name(call):
            what, field = explain_naming(value, name_path(value)), f"named.{len(found)}"
            found.append(NamedValue(field, number, what, get_text(value, "text", ""), explain_source(value)))
    return found


def _list_fields(need: Need) -> Iterator[OwnField]:
    """Yield the fields that a person may say others cannot write."""
    asked = list_asked(need.request).items() if need.gate == "approval" else ()
    listed = [(tool, as_object(one)) for tool, about in asked for one in get_list(about, "fields")]
    for number, (tool, one) in enumerate(listed):
        if not one.get("prose"):
            yield OwnField(f"own.{number}", tool, get_text(one, "field"), get_text(one, "value"))


async def answer_question(approvals: Approvals, name: str, form: ConsoleForm) -> Answered:
    """Answer a question as a form says; raise UsageError, one sentence, where it cannot count. Then nothing happens."""
    question = await approvals.show(name)
    word, each = form.get("answer"), _read_each(form)
    named = [value for field, value in form.items() if field.startswith("named.") and value.strip()]
    if not word:
        raise UsageError("nothing was chosen, so nothing was decided; press one of the buttons")
    if word in ELSEWHERE:
        raise UsageError(f"what holds beyond this session is said at the sheet; `foregate resume {question.session}`")
    if word == "each":
        if len(each) != len(question.need.calls):
            raise UsageError("not every call has an answer, so nothing was decided; choose yes or no for each")
        word = ""
    elif word == "yes" and question.need.gate == "approval":
        word, each = "", []
    me = find_identity("console")
    said = build_reply(question.need, word, form.get("text").strip(), each, [] if word else named, me.user)
    ticked: dict[str, list[Json]] = {}
    for one in _list_fields(question.need):
        if form.get(one.box):
            ticked.setdefault(one.tool, []).append(one.name)
    declared: dict[str, Json] = {tool: {"own": names} for tool, names in ticked.items()}
    reply = replace(said, person=me, declared=declared)
    delivery = await approvals.answer(question, reply)
    after = explain_delivery(delivery, question, await approvals.find_holder(question))
    return Answered(question.name, question.session, reply.choice, reply.by, after)


def _read_each(form: ConsoleForm) -> list[str]:
    """Return the answers to single calls as `2=no`."""
    return [f"{field.removeprefix('call.')}={value}" for field, value in form.items() if field.startswith("call.")]
