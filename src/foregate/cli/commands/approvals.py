"""`foregate approvals`: the questions that wait for a person, in all sessions, and their answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli.commands import options
from foregate.cli.commands.options import take
from foregate.cli.terminal.exit_codes import run_async
from foregate.schemas.errors import UsageError

if TYPE_CHECKING:
    from rich.text import Text

    from foregate.agent.session.answering import Delivery
    from foregate.assembly.approvals import Approvals
    from foregate.schemas.judgement import Need
    from foregate.schemas.protocols import Reply
    from foregate.schemas.strict_json import Json
    from foregate.telemetry.audit.questions import Question

app = options.build_group("Questions that wait for you, in every session: list them, show them, answer them.")
_NAME = "SESSION:EVENT as `list` prints it; the session alone where one question is open in it."
QuestionName = Annotated[str, typer.Argument(metavar="QUESTION", help=_NAME)]
Words = Annotated[str, take("--text", "Words that go with the answer, such as why not.", "TEXT")]
_TEXT = 300


@app.command("list")
def list_open(as_json: options.AsJson = False) -> None:
    """List the questions that are open, from the logs of their sessions."""
    rows = run_async(_read_rows())
    if as_json:
        options.print_json_rows(rows)
        return
    from foregate.cli.terminal.approval_rows import format_question

    width = options.measure_terminal()
    for row in rows:
        typer.echo(format_question(row, width))
    if not rows:
        typer.echo("nothing waits for an answer", err=True)


@app.command("show")
def show(name: QuestionName, as_json: options.AsJson = False) -> None:
    """Show a question as it was asked: the words, the values and who said each, and what would change."""
    run_async(_show(name, as_json))


@app.command("approve")
def approve(
    name: QuestionName,
    call: Annotated[
        list[str] | None, take("--call", "Answer one call by its number; the others get a yes. Repeatable.", "N=yes|no")
    ] = None,
    named: Annotated[
        list[str] | None, take("--named", "A value that takes more than a yes, typed by you. Repeatable.", "VALUE")
    ] = None,
    text: Words = "",
    as_json: options.AsJson = False,
) -> None:
    """Say yes to a question. What only text from outside said has to be named as well."""
    run_async(_answer(name, "", text, call or [], named or [], as_json))


@app.command("deny")
def deny(name: QuestionName, text: Words = "", as_json: options.AsJson = False) -> None:
    """Say no to a question; to a call that was held again, stop."""
    run_async(_answer(name, "no", text, [], [], as_json))


@app.command("answer")
def answer(
    name: QuestionName,
    word: Annotated[str, typer.Argument(metavar="WORD", help="One of the answers that `show` lists.")],
    text: Words = "",
    as_json: options.AsJson = False,
) -> None:
    """Answer a question with a word of its own, such as `more`, `step` or `go_on`."""
    run_async(_answer(name, word, text, [], [], as_json))


async def _read_rows() -> list[dict[str, Json]]:
    from foregate.assembly.approvals import Approvals

    with Approvals() as approvals:
        return [await _describe(approvals, question) for question in await approvals.list()]


async def _describe(approvals: Approvals, question: Question) -> dict[str, Json]:
    """Return what a list says of a question."""
    from foregate.agent.session.session_log import utc_now
    from foregate.schemas import strict_json
    from foregate.schemas.strict_json import as_object, get_list, get_text

    need, keys = question.need, ("call", "tool", "target", "effect")
    calls = [as_object(call) for call in get_list(need.request, "calls")] if "calls" in need.request else []
    return {
        "question": question.name,
        "session": question.session,
        "event": question.asked.seq,
        "gate": need.gate,
        "code": need.code,
        "asks": question.problem or get_text(need.request, "question", "") or "May this run?",
        "calls": [{key: str(call.get(key, "")) for key in keys} for call in calls],
        "asked_at": question.asked.time,
        "expires_at": need.expires_at,
        "expired": question.is_expired(utc_now()),
        "answered_by": question.given.by or "somebody" if question.given is not None else "",
        "held_by": await approvals.find_holder(question),
        "run_by": strict_json.dump(by) if (by := await approvals.find_runner(question)) is not None else None,
    }


async def _show(name: str, as_json: bool) -> None:
    from foregate.assembly.approvals import Approvals
    from foregate.cli.terminal.layout import build_console

    with Approvals() as approvals:
        question = await approvals.show(name)
        row = await _describe(approvals, question)
        if as_json:
            options.print_json(row | _dump_sheet(approvals, question))
            return
        console = build_console()
        for line in _format_sheet(approvals, question, row, console.width):
            console.print(line, soft_wrap=False)


def _dump_sheet(approvals: Approvals, question: Question) -> dict[str, Json]:
    from foregate.cli.terminal.diff import dump_preview
    from foregate.gates.replies import list_choices
    from foregate.schemas import strict_json

    previews = approvals.read_previews(question)
    return {
        "answers": list_choices(question.need),
        "request": strict_json.digest(question.need.request),
        "sheet": question.need.request,
        "prospects": {call: dump_preview(preview) for call, preview in previews.items()},
    }


def _format_sheet(approvals: Approvals, question: Question, row: dict[str, Json], width: int) -> Iterator[Text]:
    from foregate.cli.terminal.approval_rows import format_about, format_answers, format_asked

    yield from format_about(row, width)
    yield from format_asked(question.need, approvals.read_previews(question), width)
    yield from format_answers(question.need, question.name, width)


async def _answer(name: str, word: str, text: str, calls: list[str], named: list[str], as_json: bool) -> None:
    from msgspec.structs import replace

    from foregate.assembly.approvals import Approvals
    from foregate.assembly.identity import find_identity

    me = find_identity()

    with Approvals() as approvals:
        question = await approvals.show(name)
        reply = replace(_build_reply(question.need, word, text, calls, named, me.user), person=me)
        delivery = await approvals.answer(question, reply)
        holder = await approvals.find_holder(question)
    if as_json:
        told: dict[str, Json] = {"question": question.name, "answer": reply.choice, "by": reply.by}
        options.print_json(told | {"delivery": delivery, "held_by": holder})
        return
    options.print_text(f"{reply.choice} to {question.name}, by {reply.by}: {_explain(delivery, question, holder)}")


def _explain(delivery: Delivery, question: Question, holder: str) -> str:
    """Return where an answer is and what comes next."""
    if delivery == "taken":
        return f"{holder or 'the process that asked'} goes on with it"
    if delivery == "waiting":
        return f"kept; {holder or 'the next process'} takes it once it comes to the question"
    return f"recorded; `foregate resume {question.session.partition('.')[0]}` goes on with it"


def _build_reply(need: Need, word: str, text: str, calls: list[str], named: list[str], by: str) -> Reply:
    """Return the reply that the command line says; a yes where it says none."""
    from foregate.gates.replies import list_choices, name_values
    from foregate.schemas.protocols import Reply

    choices = list_choices(need)
    if word == "no" and "no" not in choices:
        word = "stop"
    if word:
        return Reply(word, text, by)
    if need.gate != "approval":
        choice = next((one for one in ("yes", "anyway") if one in choices), "")
        if not choice or calls or named:
            ways = f"answer it with a word: `foregate approvals answer`, one of {', '.join(choices)}"
            raise UsageError(f"this question is no approval of calls that a yes answers so; {ways}")
        return Reply(choice, text, by)
    answers = {**dict.fromkeys(need.calls, "yes"), **_read_calls(need, calls)}
    granted = [call for call, answer in answers.items() if answer == "yes"]
    mixed = len({*answers.values()}) > 1
    choice = "yes" if len(granted) == len(answers) else "no"
    return Reply(choice, text, by, answers if mixed else {}, name_values(need, granted, named))


def _read_calls(need: Need, calls: list[str]) -> dict[str, str]:
    """Return the answers to single calls, by their ids."""
    found = {}
    for said in calls:
        number, _, answer = said.replace(" ", "=").partition("=")
        if not (number.isascii() and number.isdigit() and 0 < int(number[:6]) <= len(need.calls)):
            raise UsageError(f"`{said[:40]}` names no call; this question has {len(need.calls)}, numbered from 1")
        if answer not in ("yes", "no"):
            raise UsageError(f"`{said[:40]}` answers no call; say {number}=yes or {number}=no")
        found[need.calls[int(number) - 1]] = answer
    return found
