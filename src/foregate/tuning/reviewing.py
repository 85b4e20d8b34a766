"""What is to be reviewed: a session, a queue that was drawn, or one to be drawn now; and labels as they are given."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from msgspec import Struct, field

from foregate.assembly.home import find_address, find_judged_sessions, find_session
from foregate.policy.source.layers import read_layer
from foregate.policy.source.load import resolve_policy_file
from foregate.schemas.errors import UsageError
from foregate.schemas.identity import Identity
from foregate.schemas.review import Canary, Label, QueueDrawn, RuledCall, Way
from foregate.schemas.strict_json import scrub
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.review_log import ReviewLog, SaidLabel
from foregate.telemetry.queries.reviews import GivenLabel, Reviews
from foregate.telemetry.queries.rulings import Filter, RulingRow, find_ruling, is_there, read_population
from foregate.telemetry.queries.samples import Draw, draw_queue, find_disagreements, is_same_draw, order_queue
from foregate.tuning.assessing import ChangeDraw, draw_for_change
from foregate.tuning.review_item import ReviewItem, build_item
from foregate.tuning.what_if import WhatIf

_SEEDS = 1_000_000
_LONGEST = 3600
"""Seconds at most that count as taken for one label: who left the page open did not look at it all night."""


class QueueRequest(Struct, frozen=True, kw_only=True):
    """What somebody asks to review: exactly one of a `session`, a `queue`, a `change`, and a way to draw a queue."""

    session: str = ""
    queue: str = ""
    random: int = 0
    seed: int | None = None
    risk: bool = False
    disagreement: bool = False
    change: str = ""
    against: str = ""
    size: int = 0
    name: str = ""
    blind: bool = False
    canaries: tuple[tuple[str, Label], ...] = ()
    wanted: Filter = Filter()

    @property
    def way(self) -> Way | None:
        """How a queue is to be drawn, None where none is."""
        return "random" if self.random else "risk" if self.risk else "disagreement" if self.disagreement else None


class OpenReview(Struct):
    """Rulings in the order they are shown, by whom they are labelled, and without what others said where `blind`."""

    log: SqliteLog
    kept: ReviewLog
    reviewer: Identity
    items: list[RuledCall]
    title: str
    queue: str = ""
    blind: bool = False
    reviews: Reviews = field(default_factory=Reviews)

    async def show(self, place: int) -> ReviewItem:
        """Return what is shown of a ruling."""
        ruled, self.reviews = self.items[place], await self.kept.read()
        others = self.reviews.list_visible(ruled, self.reviewer.user, blind=self.blind)
        return build_item(self.log, ruled, others, self.reviews.find_label(ruled, self.reviewer.user))

    async def label(self, item: ReviewItem, label: Label, *, now: str, comment: str = "", seconds: int = 0) -> None:
        """Record a label of what is shown; blind is one that was given in sight of no other."""
        blind = not item.others and (self.blind or not self.reviews.may_see_others(item.ruled, self.reviewer.user))
        said = SaidLabel(label, scrub(comment), min(max(0, seconds), _LONGEST), blind, self.queue)
        await self.kept.label(self.log, item.ruled, said, self.reviewer, now)
        self.reviews = await self.kept.read()

    async def undo(self, now: str, label: int = 0) -> int | None:
        """Take back the label that the reviewer gave last here; return its place, None where they gave none.

        With `label` it must be that event's, so that one order is not carried out twice: else UsageError.
        """
        self.reviews = await self.kept.read()
        last = self.reviews.find_last(self.items, self.reviewer.user)
        if label and (last is None or last.seq != label):
            raise UsageError(f"label {label} is not the last one you gave here, so nothing was written")
        if last is None:
            return None
        await self.kept.withdraw(last, self.reviewer, now)
        self.reviews = await self.kept.read()
        return self.find_place(last.body.ruled.address)

    def find_next(self, after: int = -1) -> int | None:
        """Return the place of the next ruling that the reviewer has not labelled; after the last one come those that
        were skipped. None where all are labelled."""
        places = [place for place, label in enumerate(self.list_own()) if label is None]
        return next((place for place in places if place > after), places[0] if places else None)

    def find_place(self, address: str) -> int:
        """Return the place of the ruling at an address; raise UsageError where it is none of these."""
        for place, ruled in enumerate(self.items):
            if ruled.address == address:
                return place
        raise UsageError(f"`{address[:100]}` is not among what is reviewed here, so nothing was written")

    def list_own(self) -> list[GivenLabel | None]:
        """Return the reviewer's own label of each ruling, None where they have given none."""
        return [self.reviews.find_label(ruled, self.reviewer.user) for ruled in self.items]


async def open_review(log: SqliteLog, kept: ReviewLog, request: QueueRequest, by: Identity, now: str) -> OpenReview:
    """Return what is to be reviewed; a queue that is drawn is recorded first.

    Raises UsageError where it is not said, or in several ways, and where nothing fits.
    """
    reviews = await kept.read()
    asked = (request.session, request.queue, request.random, request.risk, request.disagreement, request.change)
    if sum(map(bool, asked)) != 1:
        drawn = f"; queues are {', '.join(reviews.queues)}" if reviews.queues else ""
        raise UsageError(f"say what to review: SESSION, --queue, --random, --risk, --disagreement or --change{drawn}")
    if request.session:
        (name,) = await find_judged_sessions(log, (request.session,))
        items = [row.ruled for row in read_population(log, [name], request.wanted)]
        return OpenReview(log, kept, by, items, name, blind=request.blind, reviews=reviews)
    if request.change:
        if request.wanted != Filter() or request.seed is not None or request.name:
            raise UsageError("--change draws from exactly what was written down; leave filters, --seed and --name out")
        canaries = await _find_canaries(log, request)
        wanted = ChangeDraw(request.change, request.size, request.blind, canaries)
        queue = await draw_for_change(log, kept, wanted, by, now)
    else:
        queue = _find_queue(reviews, request.queue) if request.queue else await _draw(log, kept, request, by, now)
    title = f"{queue.name} ({queue.way}{f', seed {queue.seed}' if queue.way == 'random' else ''})"
    if "change" in queue.filter:
        title += ": `too strict` lets it go"
    blind = request.blind or queue.blind
    ordered = order_queue(queue)
    items = [ruled for ruled in ordered if is_there(log, ruled)]
    gone = len(ordered) - len(items)
    title += f", {gone} erased since" if gone else ""
    return OpenReview(log, kept, by, items, title, queue.name, blind, await kept.read())


def _find_queue(reviews: Reviews, name: str) -> QueueDrawn:
    if name not in reviews.queues:
        known = ", ".join(reviews.queues) or "none was drawn yet"
        raise UsageError(f"there is no queue `{name[:80]}`; there are: {known}")
    return reviews.queues[name]


async def _draw(log: SqliteLog, kept: ReviewLog, request: QueueRequest, by: Identity, now: str) -> QueueDrawn:
    way, reviews = request.way, await kept.read()
    assert way is not None
    if min(request.random, request.size) < 0:
        raise UsageError("a queue holds at least one decision; give a number above 0")
    seed = (secrets.randbelow(_SEEDS) if request.seed is None else request.seed) if way == "random" else 0
    name = request.name or (f"{way}-{seed}" if way == "random" else way)
    wanted = await _name_sessions(log, request.wanted)
    draw = Draw(name, way, request.random or request.size, seed, request.blind)
    if (known := reviews.queues.get(name)) is not None:
        if not is_same_draw(known, draw, wanted) or request.canaries:
            raise UsageError(f"another queue is named `{name}`; resume it by --queue, or give this one a --name")
        return known
    canaries = await _find_canaries(log, request)
    sessions = await find_judged_sessions(log, wanted.sessions)
    rows = [
        row
        for row in read_population(log, sessions, wanted)
        if row.time <= now
        # Those that begin now are no part.
    ]
    if way == "disagreement":
        rows = find_disagreements(rows, reviews, _judge_otherwise(log, sessions, request.against, rows))
    queue = draw_queue(draw._replace(canaries=canaries), rows, wanted, len(sessions), by, reviews)
    await kept.add_queue(queue, now)
    return queue


async def _name_sessions(log: SqliteLog, wanted: Filter) -> Filter:
    """Return the filter with its sessions by their whole names."""
    from msgspec.structs import replace

    return replace(wanted, sessions=tuple([await find_session(log, name) for name in wanted.sessions]))


async def _find_canaries(log: SqliteLog, request: QueueRequest) -> tuple[Canary, ...]:
    named = [(await find_address(log, text), label) for text, label in request.canaries]
    return tuple(Canary(find_ruling(log, *address), label) for address, label in named)


def _judge_otherwise(
    log: SqliteLog, sessions: list[str], file: str, rows: list[RulingRow]
) -> Mapping[tuple[str, int, str], str] | None:
    """Return how calls stand under another policy file, where they come out differently; None without a file."""
    if not file or not rows:
        return None
    named = resolve_policy_file(file)
    changes = WhatIf(log, read_layer(named, named.name, trusted=True), names_keys=False).find_changes(sessions)
    found = ((row.session, row.seq, row.call.call, row.call.after) for row in changes)
    return {(session, seq, call): after.standing for session, seq, call, after in found if after is not None}
