"""`foregate approvals`: the questions that wait for a person, in all sessions, and their answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import options
from foregate.cli.listing import Forms, show_list
from foregate.cli.options import take
from foregate.views.terminal.approval_rows import describe_standing, name_asked
from foregate.views.terminal.exit_codes import run_async
from foregate.views.terminal.listing import Column, Listing

if TYPE_CHECKING:
    from rich.text import Text

    from foregate.assembly.approvals import Approvals
    from foregate.schemas.question import Question
    from foregate.schemas.strict_json import Json

app = options.build_group()
_NAME = "SESSION:EVENT as `list` prints it; the session alone where one question is open in it."
QuestionName = Annotated[str, typer.Argument(metavar="QUESTION", help=_NAME)]
Words = Annotated[str, take("--text", "Words that go with the answer, such as why not.", "TEXT")]
_TEXT = 300
QUESTIONS = Listing(
    "question",
    (
        Column("question", head="QUESTION"),
        Column("", head="STATE", show=describe_standing),
        Column("asked_at", "time", head="ASKED"),
        Column("asks", head="WHAT", show=name_asked),
    ),
)


@app.command("list")
def list_open(as_json: options.AsJson = False) -> None:
    """List the questions that are open, from the logs of their sessions."""
    rows = run_async(_read_rows())
    show_list(QUESTIONS, rows, Forms(as_json=as_json))
    if not rows and not as_json:
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
        return [await approvals.describe(question) for question in await approvals.list()]


async def _show(name: str, as_json: bool) -> None:
    from foregate.assembly.approvals import Approvals
    from foregate.views.terminal.layout import build_console

    with Approvals() as approvals:
        question = await approvals.show(name)
        row = await approvals.describe(question)
        if as_json:
            options.print_json(row | _dump_sheet(approvals, question))
            return
        console = build_console()
        for line in _format_sheet(approvals, question, row, console.width):
            console.print(line, soft_wrap=False)


def _dump_sheet(approvals: Approvals, question: Question) -> dict[str, Json]:
    from foregate.gates.support.replies import list_choices
    from foregate.schemas import strict_json
    from foregate.views.terminal.diff import dump_preview

    previews = approvals.read_previews(question)
    return {
        "answers": list_choices(question.need),
        "request": strict_json.digest(question.need.request),
        "sheet": question.need.request,
        "prospects": {call: dump_preview(preview) for call, preview in previews.items()},
    }


def _format_sheet(approvals: Approvals, question: Question, row: dict[str, Json], width: int) -> Iterator[Text]:
    from foregate.views.terminal.approval_rows import format_about, format_answers, format_asked

    yield from format_about(row, width)
    yield from format_asked(question.need, approvals.read_previews(question), width)
    yield from format_answers(question.need, question.name, width)


async def _answer(name: str, word: str, text: str, calls: list[str], named: list[str], as_json: bool) -> None:
    from msgspec.structs import replace

    from foregate.assembly.approvals import Approvals
    from foregate.assembly.identity import find_identity
    from foregate.gates.support.replies import build_reply
    from foregate.views.terminal.approval_rows import explain_delivery

    me = find_identity()
    with Approvals() as approvals:
        question = await approvals.show(name)
        reply = replace(build_reply(question.need, word, text, calls, named, me.user), person=me)
        delivery = await approvals.answer(question, reply)
        holder = await approvals.find_holder(question)
    if as_json:
        told: dict[str, Json] = {"question": question.name, "answer": reply.choice, "by": reply.by}
        options.print_json(told | {"delivery": delivery, "held_by": holder})
        return
    options.print_text(
        f"{reply.choice} to {question.name}, by {reply.by}: {explain_delivery(delivery, question, holder)}"
    )
