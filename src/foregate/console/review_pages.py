"""Reviewing decisions: the queues there are, one ruling after the other, and labels as they are given."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from foregate.agent.session.session_log import utc_now
from foregate.console.console import LINKS, Console
from foregate.console.form import ConsoleForm, FormRefused, Query, read_form
from foregate.console.lists import ALL_GATES, STANDINGS
from foregate.schemas.errors import UsageError
from foregate.schemas.review import LABELS, Label
from foregate.telemetry.queries.reviews import measure_agreement, measure_progress
from foregate.telemetry.queries.rulings import Filter
from foregate.tuning.review_item import ReviewItem
from foregate.tuning.reviewing import OpenReview, QueueRequest, open_review
from foregate.tuning.sign_offs import label_decision, sign_session_off
from foregate.views.pages.decision_page import build_decision_page

KEYS: dict[Label, str] = {"right": "r", "too strict": "s", "too lax": "l", "unclear": "u"}
"""The key that gives each label, as at the terminal."""
ITEMS = "/review/items"
WAYS = ("random", "risk", "disagreement")


async def show_review(console: Console, request: Request) -> Response:
    """Show the queues, how far each has come, and how a new one is drawn."""
    reviews = await console.kept.read()
    progress = measure_progress(reviews, console.me.user)
    queues = [(one, Query({"queue": one.queue}).build_address(ITEMS)) for one in reversed(progress)]
    about: dict[str, Any] = {"agreement": measure_agreement(reviews), "labels": len(reviews.given)}
    about |= {"gates": ALL_GATES, "standings": STANDINGS}
    return console.render("review.html.j2", "review", queues=queues, **about)


async def draw_queue(console: Console, request: Request) -> Response:
    """Draw a queue as a form says, and begin with it."""
    form = await read_form(request, console.entry)
    said = Query(dict(form.items()))
    (way,) = said.choose("way", WAYS) or ("random",)
    size = said.read_number("size") or 0
    if way == "random" and not size:
        raise UsageError("say how many are to be drawn by chance, such as 20")
    wanted = Filter(gates=said.choose("gate", ALL_GATES), standings=said.choose("standing", STANDINGS))
    drawn = QueueRequest(
        random=size if way == "random" else 0,
        risk=way == "risk",
        disagreement=way == "disagreement",
        size=0 if way == "random" else size,
        name=said.get("name"),
        blind=bool(said.get("blind")),
        wanted=wanted,
    )
    review = await open_review(console.log, console.kept, drawn, console.me, utc_now())
    return RedirectResponse(Query({"queue": review.queue}).build_address(ITEMS), 303)


async def show_item(console: Console, request: Request) -> Response:
    """Show one ruling to label; without a place the next one that has no label of the reviewer's."""
    query = Query(request.query_params)
    review = await open_named(console, query)
    number = query.read_number("place")
    place = review.find_next() if number is None else read_place(str(number), review)
    last = review.reviews.find_last(review.items, console.me.user)
    about: dict[str, Any] = {"review": review, "last": last, "query": query, "items": ITEMS, "labels": KEYS}
    about["own_labels"] = sum(label is not None for label in review.list_own())
    if place is None:
        return console.render("reviewed.html.j2", "review", **about)
    item = await review.show(place)
    page = await asyncio.to_thread(_build_page, console, item)
    return console.render(
        "review_item.html.j2", "review", **about, page=page, item=item, place=place + 1, now=int(time.time())
    )


def _build_page(console: Console, item: ReviewItem) -> Any:
    """Return the decision that explains a ruling best, as its own page shows it."""
    decision = f"{item.ruled.seq}.{item.explained.point.gate}"
    return build_decision_page(console.log, item.ruled.session, decision, item.ruled.call, blobs=console.blobs)


async def take_label(console: Console, request: Request) -> Response:
    """Take the label of the ruling that was shown, or take the last one back; show the next."""
    form, query = await read_form(request, console.entry), Query(request.query_params)
    review = await open_named(console, query)
    if undone := form.get("undo"):
        place = await review.undo(utc_now(), label=read_number(undone))
    else:
        shown = read_place(form.get("place"), review)
        item = await review.show(shown)
        if form.get("event") != item.ruled.event:
            raise FormRefused(
                409, "this is another decision than you were shown, so nothing was written; open it again"
            )
        said = form.get("comment").strip()
        await review.label(item, read_label(form), now=utc_now(), comment=said, seconds=count_seconds(form))
        place = review.find_next(shown)
    where = {} if place is None else {"place": place + 1}
    query.fields.pop("place", None)
    return RedirectResponse(query.build_address(ITEMS, **where), 303)


async def open_named(console: Console, query: Query) -> OpenReview:
    """Return the queue or the session that an address names."""
    wanted = QueueRequest(session=query.get("session"), queue=query.get("queue"))
    if not (wanted.session or wanted.queue):
        raise UsageError("say which queue or session; begin with the queues")
    return await open_review(console.log, console.kept, wanted, console.me, utc_now())


def read_place(text: str, review: OpenReview) -> int:
    """Return the place that a page numbers from 1; raise UsageError for one that is not there."""
    number = read_number(text)
    if not 1 <= number <= len(review.items):
        raise UsageError(f"there are {len(review.items)} decisions here, and `{text[:20]}` is none of them")
    return number - 1


def read_number(text: str) -> int:
    """Return a whole number of a form; -1 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else -1


def read_label(form: ConsoleForm) -> Label:
    """Return the label of the button that was pressed."""
    for label in LABELS:
        if form.get("label") == label:
            return label
    raise UsageError(f"no label was chosen, so nothing was written; press one of {', '.join(LABELS)}")


def count_seconds(form: ConsoleForm) -> int:
    """Return the seconds since the page of a form was made, 0 where it does not say."""
    since = read_number(form.get("since"))
    return max(0, int(time.time()) - since) if since > 0 else 0


async def take_single_label(console: Console, request: Request) -> Response:
    """Take a label given on the page of a decision, or beside a dial."""
    form, query = await read_form(request, console.entry), Query(request.query_params)
    session, seq, gate, call = (query.get(name) for name in ("session", "seq", "gate", "call"))
    comment, event = form.get("comment").strip(), form.get("event")
    decision = f"{session}/{seq}.{gate}{f':{call}' if call else ''}"
    said: dict[str, Any] = {"comment": comment, "event": event, "seconds": count_seconds(form)}
    await label_decision(console.log, console.kept, decision, read_label(form), by=console.me, now=utc_now(), **said)
    # It was given beside a dial.
    if key := form.get("key"):
        dial = Query({"key": key, "value": form.get("value"), "from": form.get("from")})
        return RedirectResponse(f"{dial.build_address('/policy/tune')}#turned", 303)
    return RedirectResponse(f"{LINKS.decision(session, read_number(seq), gate, call)}#label", 303)


async def take_sign_off(console: Console, request: Request) -> Response:
    """Sign a session off as it stands, once it has been verified."""
    form, query = await read_form(request, console.entry), Query(request.query_params)
    session, comment = query.get("session"), form.get("comment").strip()
    about: dict[str, Any] = {"by": console.me, "now": utc_now(), "comment": comment, "blobs": console.blobs}
    await sign_session_off(console.log, console.kept, session, **about)
    return RedirectResponse(LINKS.session(session), 303)
