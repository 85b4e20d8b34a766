"""Readings that follow a session event by event: its state, what a model was sent, its plans, what can be undone."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins
from msgspec.structs import asdict

from foregate.agent.loop.asking import describe_open_trouble
from foregate.agent.loop.undo import UndoableChange, choose_change, has_unfinished_undo, read_undo_history
from foregate.evidence.state.plan import read_plans
from foregate.evidence.state.session import SessionState
from foregate.schemas import strict_json
from foregate.schemas.message import Message
from foregate.schemas.turn import export_turn
from foregate.telemetry.export.lines import read_sent_requests
from foregate.views.terminal.event_rows import format_event as rows_of_event
from foregate.views.terminal.plan_finding import summarise_plan as about_plan
from foregate.views.terminal.timeline import format_conversation
from tests.corpus.log import Log, lines, text, turns_of


def rebuild_turns(log: Log) -> str:
    """Each judged turn as the judge read it, with everything that lies in other events."""
    return lines({"seq": turn.seq, "turn": export_turn(turn.turn)} for turn in turns_of(log))


def fold_states(log: Log) -> str:
    """After each event a digest of what the loop knows, and in the end what that is."""
    found = []
    for session in log.sessions:
        state = SessionState()
        for event in log.events(session):
            state.apply(event)
            found.append(f"{event.seq} {event.kind} {strict_json.digest(describe_state(state))[:16]}")
        found.append(lines([describe_state(state)]).strip())
    return text(found)


def list_requests(log: Log) -> str:
    """What the model was sent before each of its responses."""
    found = []
    for session in log.sessions:
        for sent in read_sent_requests(log.events(session), log.blobs, lambda data: data):
            messages = [describe_message(message) for message in sent.messages]
            told = {"seq": sent.seq, "apart": sent.apart, "count": len(messages)}
            found.append(told | {"digest": strict_json.digest(messages), "last": messages[-1:]})
    return lines(found)


def list_plans(log: Log) -> str:
    """The task plans of the sessions, where their tasks stand and what came of them."""
    found = []
    for session in log.sessions:
        for entry in read_plans(log.events(session)):
            results = [step.result for step in entry.state.steps.values()]
            told = {"plan": strict_json.dump(entry.state.current_plan), "answer": entry.state.answer}
            tasks = [strict_json.dump(result) | {"success": result.success} for result in results]
            found.append(about_plan(entry) | told | {"results": tasks})
    return lines(found)


def preview_undo(log: Log) -> str:
    """What the log says could be taken back: the newest change, and each call that changed something."""
    found: list[Any] = []
    for session in log.sessions:
        events = list(log.events(session))
        known = read_undo_history(events)
        for call in (None, *known.started, "no-such-call"):
            what = choose_change(events, call)
            told = (
                what
                if isinstance(what, str)
                else describe_undo(what) | {"begun": has_unfinished_undo(events, what.call)}
            )
            found.append({"call": call, "undo": told})
    return lines(found)


def show_screen(log: Log) -> str:
    """What a terminal of 80 columns shows of the events, and the conversation as `/history` tells it."""
    found = []
    for session in log.sessions:
        events = list(log.events(session))
        found += [row.plain for event in events for row in rows_of_event(event, 80)]
        found += [row.plain for row in format_conversation(events, 80)]
    return text(found)


def describe_message(message: Message) -> list[Any]:
    """Return a message as JSON: role, text, calls, the call it answers, and the order of the calls."""
    calls = [[call.id, call.name, call.raw, call.defect] for call in message.calls]
    return [message.role, message.text, calls, message.call, message.order and message.order.to_json()]


def describe_undo(what: UndoableChange) -> dict[str, Any]:
    """Return a change that can be taken back as JSON: its before-images as they are recorded."""
    changes = [{**asdict(change), "resource": to_builtins(change.resource)} for change in what.changes]
    return to_builtins(what) | {"before": [strict_json.dump(image) for image in what.before], "changes": changes}


def describe_state(state: SessionState) -> dict[str, Any]:
    """Return what a session's state tells of the conversation, the task, the leaves and what is open."""
    task = state.task
    return {
        "session": [state.session, state.seq, state.hash, state.ended, state.tasks, state.spent],
        "switches": [state.auto, state.dry_run, state.mode, state.dialect],
        "hashes": [state.policy_hash, state.catalogue_hash, state.prompts_hash],
        "messages": [describe_message(message) for message in state.messages],
        "left out": state.conversation.left_out,
        "weight": state.conversation.total,
        "running": sorted(state.in_flight),
        "unknown": sorted(state.parked),
        "still open": describe_open_trouble(state),
        "grants": [strict_json.dump(grant) for grant in state.grants],
        "unanswered": sorted(state.open.unanswered) if state.open is not None else [],
        "task": None
        if task is None
        else {
            "number": [task.number, task.depth],
            "used": {name: count for name, count in task.used.items() if count},
            "active": task.active,
            "paused": [task.paused, task.question],
            "plan": strict_json.dump(task.plan) if task.plan is not None else None,
            "task plan": [task.proposed_plan, task.running_plan, task.during, task.wants_plan],
            "grants": [strict_json.dump(grant) for grant in task.grants],
            "refusals": [strict_json.dump(refusal) for refusal in task.refusals],
            "holds": sorted([*key, count] for key, count in task.holds.items()),
            "fired": [task.fired, task.shadow_fired],
            "slots": [task.slots_asked, task.slots_answered],
            "changed": sorted([resource.kind.value, resource.id] for resource in task.changed),
            "done": task.done,
            "trouble": sorted([*key, what, task.why[key]] for key, what in task.trouble.items()),
            "verdict": list(task.verdict),
            "words only": [task.words_only, task.words_only_task],
            "stuck": task.stuck,
        },
    }
