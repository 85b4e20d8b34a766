"""One session as an auditor sees it: what was asked and said, what was ruled, the outcomes, and what waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from foregate.schemas.errors import UsageError
from foregate.schemas.event import Event, ModelResponded, TurnJudged
from foregate.schemas.event_body import Kind, SessionStarted, TaskEnded, TaskPaused, TaskStarted, UserMessage
from foregate.schemas.protocols import Blobs, Readable
from foregate.schemas.question import AskedQuestion, follow_question
from foregate.views.pages.asides import name_by
from foregate.views.pages.changes import KeptBytes
from foregate.views.pages.session_rows import CALLS, RowBuilder, list_judgings
from foregate.views.pages.texts import STANDING, STATE, Tone, cut_text, describe_state, name_row
from foregate.views.pages.views import PageView, ProofView, RowView, SessionPage, StripMark, TaskView, WaitingView

EVENTS = 400
"""Events of a page; a response that begins among them is shown to its end, at most as many further."""
STRIP = 4_000
"""Events of a session up to which its strip of verdicts holds all of them; of a longer one it holds the page's."""
TASKS = 60
"""Tasks that are listed, the newest."""
_STARTS: tuple[Kind, ...] = ("user_message", "task_started", "model_response")
_OF_TASKS: tuple[Kind, ...] = ("task_started", "user_message", "task_paused", "task_ended")
_WORDS: dict[Tone, str] = {"allow": "let pass", "ask": "asks", "hold": "held", "deny": "denied"}
UNCHECKED = "not verified on this page; `foregate audit verify` does"


def build_session_page(
    log: Readable, session: str, *, blobs: Blobs | None = None, page: int = 1, proof: ProofView | None = None
) -> SessionPage:
    """Return what page `page` of a session shows; raise UsageError for a missing page, LogError for a
    session the log does not hold or an event of it that cannot be read.

    `proof` is what whoever asks knows of the log's wholeness. Contents of changed files come from `blobs`.
    """
    last, head = log.head_anchor(session)
    count = max(1, -(-last // EVENTS))
    if not 1 <= page <= count:
        raise UsageError(f"session `{session[:80]}` has {count} pages; name one of them")
    rows = _read_rows(log, session, page, KeptBytes(blobs))
    tasks, waiting, began = _read_tasks(log, session), _find_waiting(log, session, last), _read_start(log, session)
    whole = last <= STRIP
    strip = list(
        _read_strip(log.events(session, kinds=("turn_judged", "model_response"))) if whole else _list_marks(rows, page)
    )
    counts = Counter(mark.tone for mark in strip)
    state = tasks[-1].status if tasks else "open"
    if tasks and waiting is not None and waiting.question and state == "open":
        state = tasks[-1].status = "awaiting_approval"
        tasks[-1].tone = "ask"
    return SessionPage(
        session=session,
        events=last,
        head=head,
        facts=list(_list_facts(began)) if began is not None else [],
        state=describe_state(state),
        tone=STATE.get(state, "quiet"),
        asked=next((task.asked for task in tasks if task.asked), ""),
        erased=_describe_erased(log, session),
        tasks=tasks[-TASKS:],
        waiting=waiting,
        rows=rows,
        strip=strip,
        whole_strip=whole,
        page=PageView(page, count, (page - 1) * EVENTS + 1, min(last, page * EVENTS)),
        proof=proof or ProofView("unchecked", UNCHECKED, last, head, "quiet"),
        counts=[(_WORDS[tone], counts[tone], tone) for tone in _WORDS if counts[tone]],
    )


def find_page(seq: int) -> int:
    """Return the page on which the row of an event stands that begins one."""
    return (seq - 1) // EVENTS + 1


def _read_rows(log: Readable, session: str, page: int, kept: KeptBytes) -> list[RowView]:
    first, last = (page - 1) * EVENTS + 1, page * EVENTS
    skips = page > 1 and _reads_on(log, session, page - 1)
    builder, begun = RowBuilder(kept), page == 1
    goes_on = _reads_on(log, session, page)
    for event in log.events(session, after=first - 1, until=last + EVENTS * goes_on):
        starts = _is_start(event)
        if event.seq > last and starts:
            break
        begun = begun or starts
        if begun or not skips:
            builder.add(event)
    return builder.finish()


def _reads_on(log: Readable, session: str, page: int) -> bool:
    """Whether a page shows what begins on it to its end: not where nothing does, or more calls than it has room for."""
    starts = log.events(session, after=(page - 1) * EVENTS, until=page * EVENTS, kinds=_STARTS)
    newest = None
    for event in filter(_is_start, starts):
        newest = event
    if newest is None:
        return page == 1
    body = newest.body
    return not (isinstance(body, ModelResponded) and len((body.program or body).calls) > CALLS)


def _is_start(event: Event) -> bool:
    return event.kind in _STARTS and not (isinstance(event.body, ModelResponded) and event.body.continues is not None)


def _read_start(log: Readable, session: str) -> Event | None:
    return next(iter(log.events(session, until=1)), None)


def _list_facts(event: Event) -> Iterator[tuple[str, str]]:
    body = event.body
    if not isinstance(body, SessionStarted):
        return
    facts = {
        "began": f"{event.time[:19].replace('T', ' ')} UTC",
        "by": name_by(event),
        "model": body.model,
        "workspace": body.workspace,
        "dialect": body.dialect,
        "tools in": body.runtime,
        "serves": body.agent,
        "part of": f"{body.parent}, event {body.parent_event}" if body.parent else "",
        "tools": str(len(body.catalogue)),
        "policy": event.policy[:16],
        "Foregate": event.foregate,
    }
    yield from ((name, cut_text(value, 200)) for name, value in facts.items() if value)


def _describe_erased(log: Readable, session: str) -> str:
    """Return by whom, when and why events of a session were erased, "" where none was."""
    found = log.list_erased(session)
    if not found:
        return ""
    first = next(iter(found.values()))
    said = f"{len(found)} of its events were erased at {first.at[:19]} UTC by {first.by}"
    return cut_text(f"{said}{f': {first.why}' if first.why else ''}; their hashes are kept")


def _read_tasks(log: Readable, session: str) -> list[TaskView]:
    tasks: list[TaskView] = []
    for event in log.events(session, kinds=_OF_TASKS):
        match event.body:
            case TaskStarted():
                tasks.append(TaskView(number=len(tasks) + 1, seq=event.seq))
            case UserMessage(text=text) if tasks and not tasks[-1].asked:
                tasks[-1].asked = cut_text(text, 240)
            case UserMessage() if tasks and tasks[-1].status == "needs_input":
                tasks[-1].status = "open"
            case TaskPaused(reason=reason) if tasks:
                tasks[-1].status = reason
            case TaskEnded() as body if tasks:
                _end_task(tasks[-1], event.seq, body)
            case _:
                pass
    for task in tasks:
        task.tone = STATE.get(task.status, "quiet")
    return tasks


def _end_task(task: TaskView, seq: int, body: TaskEnded) -> None:
    report = body.report
    told = {
        "done": "; ".join(report.done[:20]),
        "in the way": report.blocker,
        "needs": report.need,
        "next": report.next_step,
    }
    task.status, task.ended = body.status, seq
    task.note = cut_text(body.note) if body.note != report.blocker else ""
    task.report = [(name, cut_text(text, 600)) for name, text in told.items() if text]
    task.seconds, task.turns, task.tokens = body.duration, body.turns, body.tokens
    task.model_calls, task.tool_calls = body.model_calls, body.tool_calls


def _find_waiting(log: Readable, session: str, last: int) -> WaitingView | None:
    """Return what the newest events wait for; a question is asked among the last of a session."""
    open_: AskedQuestion | None = None
    paused: Event | None = None
    for event in log.events(session, after=max(0, last - EVENTS)):
        open_ = follow_question(open_, event)
        if isinstance(event.body, TaskPaused):
            paused = event
        elif isinstance(event.body, (UserMessage, TaskEnded, ModelResponded)):
            paused = None
    if open_ is not None:
        need = open_.raised.need
        calls = f" about {len(need.calls)} call{'' if len(need.calls) == 1 else 's'}" if need.calls else ""
        says = f"{need.gate} asks a person{calls}"
        return WaitingView(open_.seq, cut_text(says), open_.time, open_.seq)
    if paused is not None and isinstance(paused.body, TaskPaused):
        return WaitingView(paused.seq, cut_text(paused.body.question or "a person's yes"), paused.time)
    return None


def _read_strip(events: Iterator[Event] | Sequence[Event]) -> Iterator[StripMark]:
    """Yield a mark for each verdict of a session, in order."""
    places: dict[str, tuple[int, int]] = {}
    row = 0
    for event in events:
        match event.body:
            case ModelResponded() as body:
                if body.continues is None:
                    row, places = event.seq, {}
                calls = [*body.calls, *(body.program.calls if body.program is not None else ())]
                for call in calls:
                    places.setdefault(call.id, (row, len(places) + 1))
            case TurnJudged() as body:
                for verdict in body.judgement.verdicts:
                    if verdict.call not in places:
                        places[verdict.call] = (row, len(places) + 1)
                    begin, place = places[verdict.call]
                    tone, word = STANDING[verdict.standing]
                    stopped = verdict.standing.stops
                    says = f"{verdict.call}: {word}{f' by {verdict.gate}' if stopped else ''}"
                    anchor = f"c{begin}.{place}" if begin and place <= CALLS else name_row(begin or event.seq)
                    yield StripMark(event.seq, place, tone, cut_text(says, 80), find_page(begin or event.seq), anchor)
            case _:
                pass


def _list_marks(rows: Sequence[RowView], page: int) -> Iterator[StripMark]:
    for call, judged in list_judgings(rows):
        says = f"{call.mark}: {judged.word}{f' by {judged.gate}' if judged.tone in ('hold', 'deny') else ''}"
        yield StripMark(judged.seq, call.place, judged.tone, cut_text(says, 80), page, call.anchor)
