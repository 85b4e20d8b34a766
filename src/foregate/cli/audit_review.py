"""`foregate audit review`, `label`, `labels` and `sign`: what people say of decisions afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foregate.assembly.home import Home, open_home_log
from foregate.cli import audit, options, selecting
from foregate.cli.listing import Forms, show_list
from foregate.cli.options import take
from foregate.cli.selecting import Selection
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import run_async
from foregate.views.terminal.listing import Column, Listing, Row

if TYPE_CHECKING:
    from foregate.schemas.review import Label
    from foregate.schemas.strict_json import Json
    from foregate.telemetry.queries.review_log import ReviewLog
    from foregate.telemetry.queries.reviews import GivenLabel
    from foregate.telemetry.queries.rulings import Filter
    from foregate.tuning.reviewing import QueueRequest

Names = list[str]
Comment = Annotated[str, take("--comment", "Words that go with it.", "TEXT")]
_SELECTION = {name: selecting.OF_ONE[name] for name in ("gate", "code", "standing", "tool", "since", "until")}
_DECISION = "SESSION/SEQ.GATE, with :CALL where it ruled on several."


def _describe_comment(row: Row) -> str:
    return f"(taken back) {row['comment']}" if row["withdrawn"] else row["comment"]


LABELS = Listing(
    "label",
    (
        Column("", head="DECISION", show=lambda row: row["decision"]),
        Column("session"),
        Column("event", "number"),
        Column("gate"),
        Column("call"),
        Column("label", head="LABEL"),
        Column("", head="BY", show=lambda row: row["who"]),
        Column("comment", head="COMMENT", show=_describe_comment),
        Column("user"),
        Column("host"),
        Column("at", "time"),
        Column("seconds", "number"),
        Column("blind"),
        Column("queue"),
    ),
)


@audit.app.command("review")
@selecting.takes_selection(_SELECTION)
def review(
    selection: Selection,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="All calls of one session, in order.")] = "",
    queue: Annotated[str, take("--queue", "Resume a queue that was drawn.", "NAME")] = "",
    random: Annotated[int, take("--random", "Draw so many by chance from all that fit.", "N")] = 0,
    seed: Annotated[int | None, take("--seed", "The number the chance begins with; else one is chosen.", "S")] = None,
    risk: Annotated[bool, take("--risk", "Draw the riskiest calls.")] = False,
    disagreement: Annotated[bool, take("--disagreement", "Draw what reviewers label differently.")] = False,
    change: Annotated[str, take("--change", "Draw what a change lets go; see `policy suggest`.", "ID")] = "",
    against: Annotated[str, take("--against", "With --disagreement: labels this policy goes against.", "FILE")] = "",
    size: Annotated[int, take("--size", "So many at most, of --risk, --disagreement and --change.", "N")] = 0,
    name: Annotated[str, take("--name", "The name of the queue that is drawn.", "NAME")] = "",
    blind: Annotated[bool, take("--blind", "Show nobody what others said before they have labelled it.")] = False,
    canary: Annotated[
        Names | None, take("--canary", "Hide one whose label is known among them. Repeatable.", "DECISION=LABEL")
    ] = None,
    of: Annotated[Names | None, take("--session", "Only this session; may be repeated.", "SESSION")] = None,
    agreement: Annotated[
        bool, take("--agreement", "Show how far reviewers agree, and what queues have come to.")
    ] = False,
    enough: Annotated[
        int | None,
        take("--enough", "With --agreement: claim nothing below so many double labels; else 100.", "N", min=1),
    ] = None,
    as_json: Annotated[bool, take("--json", "For programs: a decision a line; read labels as lines of JSON.")] = False,
) -> None:
    """Review decisions one at a time: label each as right, too strict, too lax or unclear. Queues are recorded."""
    from foregate.tuning.reviewing import QueueRequest

    if agreement:
        _print_agreement(enough, as_json)
        return
    request = QueueRequest(
        session=session,
        queue=queue,
        random=random,
        seed=seed,
        risk=risk,
        disagreement=disagreement,
        change=change,
        against=against,
        size=size,
        name=name,
        blind=blind,
        canaries=tuple(_read_canary(one) for one in canary or ()),
        wanted=_build_filter(selection, of or ()),
    )
    _work_through(request, as_json)


def _build_filter(selection: Selection, sessions: Iterable[str]) -> Filter:
    """Return the filter that options make; raise UsageError for one that names nothing there is."""
    from foregate.telemetry.queries.rulings import Filter

    found = selecting.select_decisions(selection)
    since, until = (
        moment and f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}" for moment in (found.since, found.until)
    )
    named = (found.gate, found.code, found.standing, found.tool, sessions)
    gates, codes, standings, tools, names = map(tuple, named)
    return Filter(gates, codes, standings, tools, names, since or "", until or "")


def _read_canary(text: str) -> tuple[str, Label]:
    """Return the decision and the label that `DECISION=LABEL` says."""
    from foregate.cli.review_work import read_label

    decision, _, word = text.rpartition("=")
    return decision, read_label(word)


def _work_through(request: QueueRequest, as_json: bool) -> None:
    from foregate.agent.session.session_log import utc_now
    from foregate.assembly.identity import find_identity
    from foregate.cli.review_work import ReviewAtTerminal, ReviewStream
    from foregate.tuning.reviewing import open_review

    with open_home_log() as log, open_reviews() as reviews:
        found = run_async(open_review(log, reviews, request, find_identity(), utc_now()))
        if not found.items:
            options.print_text("nothing is left to label here", err=True)
            return
        if as_json:
            ReviewStream(found, sys.stdin).run()
        elif sys.stdin.isatty() and sys.stdout.isatty():
            ReviewAtTerminal(found).run()
        else:
            raise UsageError("nobody can press keys here; use --json, or `foregate audit label DECISION LABEL`")


@audit.app.command("label")
def label(
    decision: Annotated[str, typer.Argument(metavar="DECISION", help=_DECISION)],
    word: Annotated[str, typer.Argument(metavar="LABEL", help="`right`, `too strict`, `too lax` or `unclear`.")],
    comment: Comment = "",
    as_json: options.AsJson = False,
) -> None:
    """Label the ruling of a gate on a call; a later label of yours takes the place of the earlier one."""
    run_async(_label(decision, word, comment, as_json))


async def _label(decision: str, word: str, comment: str, as_json: bool) -> None:
    from foregate.agent.session.session_log import utc_now
    from foregate.assembly.identity import find_identity
    from foregate.cli.review_work import read_label
    from foregate.tuning.review_item import dump_label
    from foregate.tuning.sign_offs import label_decision

    chosen, by = read_label(word), find_identity()
    with open_home_log() as log, open_reviews() as reviews:
        given = await label_decision(log, reviews, decision, chosen, by=by, now=utc_now(), comment=comment)
    if as_json:
        options.print_json(dump_label(given))
    else:
        options.print_text(f"{given.body.ruled.address} is labelled {chosen}, by {by}")


@audit.app.command("sign")
def sign(session: options.SessionName, comment: Comment = "", as_json: options.AsJson = False) -> None:
    """Sign a session off as it stands: you have looked at it. It is void once the session grows."""
    run_async(_sign(session, comment, as_json))


async def _sign(session: str, comment: str, as_json: bool) -> None:
    from foregate.agent.session.session_log import utc_now
    from foregate.assembly.home import find_session
    from foregate.assembly.identity import find_identity
    from foregate.tuning.sign_offs import sign_session_off

    with open_home_log() as log, open_reviews() as reviews:
        name, by = await find_session(log, session), find_identity()
        about: dict[str, Any] = {"by": by, "now": utc_now(), "comment": comment}
        about["blobs"] = Home.open_to_read().open_blobs()
        signed = await sign_session_off(log, reviews, name, **about)
    if as_json:
        options.print_json({"session": name, "head": signed.head, "by": by.user})
    else:
        options.print_text(f"{name} is signed off at event {signed.head.partition(':')[0]}, by {by}")


@audit.app.command("labels")
def labels(
    sessions: options.SessionNames = None,
    given: Annotated[bool, take("--all", "Also those that were taken back or replaced.")] = False,
    as_csv: Annotated[bool, take("--csv", "Print a table for spreadsheets.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """List the labels that stand; those of others stay hidden where you are to label without having seen them."""
    run_async(_list_labels(sessions or (), given, Forms(csv="-" if as_csv else "", as_json=as_json)))


async def _list_labels(names: Names | tuple[()], everything: bool, forms: Forms) -> None:
    from foregate.assembly.home import find_sessions
    from foregate.assembly.identity import find_identity
    from foregate.tuning.review_item import dump_label

    with open_home_log() as log, open_reviews() as kept:
        reviews = await kept.read()
        wanted = set(await find_sessions(log, names)) if names else None
    found = reviews.given if everything else sorted(g for of_one in reviews.list_standing() for g in of_one)
    chosen = [one for one in found if wanted is None or one.body.ruled.session in wanted]
    me = find_identity().user
    seen = [one for one in chosen if one.body.by.user == me or reviews.may_see_others(one.body.ruled, me)]
    rows = [dump_label(one, withdrawn=one.seq in reviews.withdrawn) for one in seen]
    show_list(LABELS, rows if forms.as_json else map(_add_cells, rows, seen), forms)
    if len(seen) < len(chosen):
        options.print_text(f"{len(chosen) - len(seen)} are not shown: you are to label those yourself first", err=True)


def _add_cells(row: dict[str, Json], given: GivenLabel) -> dict[str, Json]:
    """Return the row of a label with what stands in cells of their own: the decision's parts and who gave it."""
    ruled, by = given.body.ruled, given.body.by
    decision: dict[str, Json] = {"session": ruled.session, "event": ruled.seq, "gate": ruled.gate, "call": ruled.call}
    return {
        **row,
        **decision,
        "who": str(by),
        "user": by.user,
        "host": by.host,
        "blind": "yes" if given.body.blind else "no",
    }


def _print_agreement(enough: int | None, as_json: bool) -> None:
    from foregate.assembly.identity import find_identity
    from foregate.schemas import strict_json
    from foregate.telemetry.queries.reviews import (
        ENOUGH,
        count_by_gate,
        count_canaries,
        measure_agreement,
        measure_progress,
    )
    from foregate.views.terminal.layout import pluralise

    with open_reviews() as kept:
        reviews = run_async(kept.read())
    found, canaries = measure_agreement(reviews, enough or ENOUGH), count_canaries(reviews, reviews.queues.values())
    queues, gates = measure_progress(reviews, find_identity().user), count_by_gate(reviews)
    if as_json:
        told: dict[str, Json] = {"canaries": [one._asdict() for one in canaries]}
        told |= {"gates": {**gates}}
        options.print_json({**strict_json.dump(found), **told, "queues": [one.to_json() for one in queues]})
        return
    options.print_text(found.sentence)
    for gate, counts in gates.items():
        options.print_text(f"{gate}: {', '.join(f'{count} {word}' for word, count in counts.items() if count)}")
    for one in canaries:
        options.print_text(f"{one.reviewer} found {one.found} of {one.met} known answers")
    for queue in queues:
        chance = f", each with probability {queue.probability / 1_000_000:.4f}" if queue.probability else ""
        drawn = f"{queue.size} of {pluralise(queue.population, 'decision')}{chance}"
        options.print_text(f"queue {queue.queue}: {drawn}, {queue.labelled} labelled")


def open_reviews() -> ReviewLog:
    """Return the review log of the home."""

    return Home.open_to_read().open_reviews()
