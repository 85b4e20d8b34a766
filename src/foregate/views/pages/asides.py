"""What happens in a session beside its conversation, as rows of a line: switches, plans, pauses, ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from foregate.schemas.event import Event
from foregate.schemas.event_body import (
    CatalogChanged,
    Checkpoint,
    ContextCompressed,
    PolicyChanged,
    SessionEnded,
    SessionStarted,
    TaskEnded,
    TaskPaused,
    TaskStarted,
)
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed, PlanStepChanged
from foregate.telemetry.export.fold import describe_switches
from foregate.views.pages.texts import (
    NOTHING,
    STATE,
    Quote,
    Tone,
    cut_text,
    describe_duration,
    describe_state,
    fold_text,
)
from foregate.views.pages.views import AnswerView, Noting
from foregate.views.terminal.event_rows import describe_compression

_DIGITS = 12
_STEPS: Mapping[str, Tone] = {"done": "allow", "failed": "fail", "aborted": "fail", "paused": "ask"}


def name_by(event: Event) -> str:
    """Return who stands behind an event as `user on host, via`, "" where it does not say."""
    found: Any = getattr(event.body, "by", None) or getattr(event, "by", None)
    if found is None or isinstance(found, str):
        return found or ""
    user, host, via = (str(getattr(found, name, "") or "") for name in ("user", "host", "via"))
    who = f"{user} on {host}" if user and host else user or host
    return cut_text(f"{who}, {via}" if who and via else who or via, 120)


def build_asides(event: Event) -> Iterator[Noting]:
    """Yield the rows of an event that is no message, no call and no ruling; none for one that says nothing."""
    match event.body:
        case SessionStarted() as body:
            yield _note(event, "session", f"began; policy {event.policy[:_DIGITS]}, model {body.model or 'not named'}")
        case PolicyChanged() as body:
            yield _note(event, "policy", _describe_policy(event, body), "ask")
        case CatalogChanged() as body:
            yield _note(event, "tools", f"{len(body.catalogue)} tools from here on ({body.catalogue_hash[:_DIGITS]})")
        case TaskStarted(task=task, depth=depth):
            yield _note(event, "task", f"{task} begins{' (of another task)' if depth else ''}")
        case ContextCompressed() as body:
            yield _note(event, "context", describe_compression(body), text=_quote(event, "summary", body.summary))
        case TaskPaused(reason=reason, question=question):
            says = "waits for a person's yes" if question is None else "stopped to ask"
            yield _note(event, "task", f"{says} ({describe_state(reason)})", "ask", _quote(event, "question", question))
        case TaskEnded() as body:
            took = describe_duration(body.duration)
            tone = STATE.get(body.status, "quiet")
            yield _note(event, "task", f"{describe_state(body.status)}: {took}", tone, _quote(event, "note", body.note))
        case SessionEnded(events=count):
            yield _note(event, "session", f"ended with {count} events")
        case Checkpoint(undo=call, steps=steps, why=why):
            says = f"undo of {call} begins ({len(steps)} steps)" if why is None else f"undo of {call} broke off: {why}"
            yield _note(event, "undo", says, "quiet" if why is None else "fail")
        case PlanProposed() as body:
            says = f"proposed, {len(body.proposal.tasks)} tasks ({body.digest[:_DIGITS]})"
            yield _note(event, "plan", says, "quiet", _quote(event, "proposal/goal", body.proposal.goal))
        case PlanConfirmed() as body:
            how = "confirmed by a person" if body.approved else "may run; nothing of it was approved"
            yield _note(event, "plan", f"{how} ({body.digest[:_DIGITS]})", "allow" if body.approved else "quiet")
        case PlanStepChanged() as body:
            yield _note(
                event,
                "plan",
                f"task {body.step}: {body.status}",
                _STEPS.get(body.status, "quiet"),
                _quote(event, "reason", body.reason),
            )
        case _:
            return


def note_answer(answer: AnswerView) -> Noting:
    """Return a question about no call on the page, with its answer."""
    asked = f"{'a person' if answer.who == 'person' else f'the {answer.who}'} was asked by {answer.gate}"
    says = f"{asked}: {answer.choice or answer.error or 'no answer yet'}"
    return Noting(
        seq=answer.seq, time=answer.asked, word="question", says=says, tone=answer.tone, text=answer.words, by=answer.by
    )


def _describe_policy(event: Event, body: PolicyChanged) -> str:
    told = [describe_switches(body)] if describe_switches(body) else []
    if body.policy is not None:
        told.append(f"another policy from here on ({event.policy[:_DIGITS]})")
    if body.permissions is not None:
        told.append(f"{len(body.permissions)} permissions in force: {'; '.join(one.words for one in body.permissions)}")
    if body.workspace is not None:
        told.append(f"the workspace is {body.workspace} now")
    return ", ".join(told) or "nothing changed"


def _quote(event: Event, key: str, text: str | None) -> Quote:
    return fold_text(text, f"{event.seq}/body/{key}", shown=400, lines=6) if text else NOTHING


def _note(event: Event, word: str, says: str, tone: Tone = "quiet", text: Quote = NOTHING) -> Noting:
    by = name_by(event)
    return Noting(seq=event.seq, time=event.time, word=word, says=cut_text(says), tone=tone, text=text, by=by)
