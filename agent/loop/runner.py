"""The loop: ask the model, survey, judge, get what the judge needs, do what may be done, until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import convert
from msgspec.structs import replace

from foregate.agent.loop.asking import request_response
from foregate.agent.loop.cancelling import (
    answer_remaining,
    draft_answer,
    finish_steps,
    refuse_while_asking,
    turn_elsewhere,
)
from foregate.agent.loop.dispatch import dispatch
from foregate.agent.loop.executor import RUNTIME_LOST
from foregate.agent.loop.internal_calls import CUTS, build_remark, find_bare_promise, verify_answer
from foregate.agent.loop.reconcile import reconcile_remote_calls, resume
from foregate.agent.loop.unmet import UNKNOWN_WAY, explain_unmet
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import COUNTED, Session
from foregate.agent.session.session_log import fold_session
from foregate.agent.session.turn_builder import TurnInHand
from foregate.evidence.state.dataflow import Dataflow
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.task import OpenTurn, TaskState
from foregate.gates.prelude import judge
from foregate.gates.support.plan_scope import find_scripts
from foregate.gates.support.questions import describe_call
from foregate.policy.policy import Policy
from foregate.schemas.codes import REPEATED_HOLD, NotRunCode
from foregate.schemas.errors import LogError, ModelError, RuntimeLost, UsageError
from foregate.schemas.event import Continuation, Draft, ModelResponded
from foregate.schemas.event_body import PolicyChanged, Report
from foregate.schemas.judgement import Judgement, Need, Standing
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.plan import Leave
from foregate.schemas.strict_json import Json, get_list
from foregate.telemetry.diagnostics import get_diagnostics

Spent = dict[str, dict[str, int]]
"""What a task has used, by the section and the name of the limit."""
_WHOLE = "a message to go on (`go on`), a higher bound at the endpoint, or a smaller request"
_TRUNCATED = "the response was cut off; send the calls again, shorter"


async def run(session: Session, text: str) -> RunResult:
    """Take a message through to an answer, a pause or an end. Cancelling ends the task, and every call is answered.

    A cancel by the caller goes on as CancelledError, one by `stop_task` gives the outcome.
    Raises UsageError while a question to a person is open: a message answers none. `turn_elsewhere` gives it up.
    """
    if session.state.task is not None and session.state.task.paused != "needs_input":
        refuse_while_asking(session)
    return await finish_steps(session, take_message(session, text))


async def take_message(session: Session, text: str) -> RunResult:
    """Record a message, which ends what does not wait for one, and take it through."""
    if session.state.task is not None and session.state.task.paused != "needs_input":
        await turn_elsewhere(session)
    await session.record_message(text)
    return await run_to_outcome(session)


async def run_to_outcome(session: Session) -> RunResult:
    """Take steps until one has an outcome; see `run` for cancels.

    A task with a plan follows the plan; it does not ask the model.
    """
    task, driver = session.state.task, session.plan_driver
    if driver is not None:
        driver.begin()
    elif task is not None and (task.running_plan or task.proposed_plan):
        return explain_waiting_plan(session, task)
    return await finish_steps(session, take_steps(session))


async def take_steps(session: Session) -> RunResult:
    """Take steps until one has an outcome."""
    while (outcome := await take_step(session)) is None:  # noqa: ASYNC110 - it works, it does not poll
        # Lets a cancel and whoever follows the events in between two steps.
        await asyncio.sleep(0)
    return outcome


def explain_waiting_plan(session: Session, task: TaskState) -> RunResult:
    why = f"a plan waits for a yes; `foregate execute {session.name}` asks for it"
    if task.running_plan:
        why = f"a plan is under way here; `foregate plans resume {session.name}` resumes it"
    return RunResult("paused", why, Report(blocker=why))


async def take_step(session: Session) -> RunResult | None:
    """Take the one step the state asks for; the state is a fold over the log, so this is also how to resume."""
    open_turn = session.state.open
    if open_turn is None and session.state.program is None:
        await session.update_policy()
    if session.plan_driver is not None and is_led_by_plan(session, open_turn):
        return await session.plan_driver.take_step()
    if open_turn is None:
        if session.state.program is not None:
            await record_next_stage(session)
            return None
        return await finish_turn(session) or await ask_model(session)
    if not open_turn.response.calls:
        return await end_with_answer(session, open_turn)
    if open_turn.response.finish_reason in CUTS:
        await answer_remaining(session, "not_run_truncated", _TRUNCATED)
        return None
    if open_turn.judgement is not None:
        return await dispatch(session, open_turn, await session.turns.restore_turn(open_turn))
    decided = await judge_response(session, open_turn)
    if not isinstance(decided, TurnInHand):
        return decided
    # Lets a cancel and whoever follows the events in before anything runs.
    await asyncio.sleep(0)
    return await dispatch(session, open_turn, decided)


def is_led_by_plan(session: Session, open_turn: OpenTurn | None) -> bool:
    """Whether the plan of the task in hand, or that it wants one, says what comes next."""
    task = session.state.running_task
    if task.running_plan:
        return open_turn is None or not open_turn.response.calls
    wanted = task.wants_plan and not task.question and open_turn is None and session.state.program is None
    return wanted or bool(task.proposed_plan)


async def ask_model(session: Session) -> RunResult | None:
    """Ask the model with everything said so far, and record what it says."""
    task = session.state.running_task
    await session.update_catalogue()
    await session.update_permissions()
    if session.state.parked:
        await reconcile_remote_calls(session)
    try:
        response = await request_response(session, words_only=task.words_only or task.words_only_task)
    except ModelError as error:
        return await session.end_task("failed", blocker=str(error), need="a model that answers")
    await record_response(session, response)
    return None


async def ask_need(session: Session, need: Need, in_hand: TurnInHand) -> RunResult | None:
    """Have a question answered; a person who does not answer now pauses the task."""
    need = await session.interaction.show_reads(need, session.catalogue)
    if await session.interaction.answer_need(need, in_hand):
        asking = session.state.open
        if need.who == "person" and asking is not None and asking.answers:
            session.keep_answer(asking.answers[-1], need)
        return None
    return await session.pause(RunResult("awaiting_approval", str(need.request.get("question", ""))))


async def judge_response(session: Session, open_turn: OpenTurn) -> TurnInHand | RunResult | None:
    """Judge the response and return the judged turn; a Need is answered first, and the response judged again then."""
    try:
        await session.tools.refresh(open_turn.response.calls)
    except RuntimeLost as lost:
        await answer_remaining(session, RUNTIME_LOST, str(lost))
        if session.state.task is None or session.state.task.running_plan:
            # A plan ends itself.
            return None
        return await session.end_task("blocked", blocker=str(lost), need="a runtime that answers")
    # An answer stands for the call as it was shown.
    if session.has_declared and not open_turn.answers:
        await session.update_catalogue()
    in_hand = session.turns.build_turn(open_turn)
    judgement = judge(in_hand.turn, session.prelude, in_hand.facts)
    if isinstance(judgement, Need):
        return await ask_need(session, judgement, in_hand)
    stuck = find_repeated_hold(in_hand, judgement, session.policy)
    if stuck is not None and session.person is not None and not in_hand.turn.find_answers("loop"):
        return await ask_need(session, stuck, in_hand)
    drafted = session.turns.draft_judgement(in_hand.turn, judgement, stuck=stuck.key if stuck else "")
    (event,) = await session.record(drafted)
    for decision in judgement.decisions:
        if decision.code == "gate_error":
            why = [ruling.reason for ruling in decision.rulings]
            get_diagnostics().warning("gate_error", gate=decision.gate, seq=event.seq, why=why)
    return replace(in_hand, judgement=judgement, judged=event.seq)


async def end_with_answer(session: Session, open_turn: OpenTurn) -> RunResult | None:
    """End the task with the model's words; an empty response is asked for once more."""
    task = session.state.running_task
    text, cut = open_turn.response.text.strip(), CUTS.get(open_turn.response.finish_reason, "")
    if text:
        promised = find_bare_promise(task, text, session.policy)
        if await verify_answer(session, open_turn):
            return None
        if promised:
            why = "the model only said what it would do, and nothing ran"
            return await session.end_task("blocked", text, blocker=why, need="another model or request")
        remark, unmet = build_remark(task, text, session.policy, cut), await explain_unmet(session, task)
        if unmet is None and cut:
            return await session.end_task("blocked", text, remark=remark, blocker=cut, need=_WHOLE)
        if unmet is None:
            return await session.end_task("completed", text, remark=remark)
        return await session.end_task("blocked", text, remark=remark, blocker=unmet.blocker, need=unmet.need)
    if task.empty_responses < 2:
        return await ask_model(session)
    why = f"the model gave two empty responses{cut and ': '}{cut}"
    return await session.end_task("failed", blocker=why, need="another model or request")


async def finish_turn(session: Session) -> RunResult | None:
    """Do what a finished turn left to do: ask the person, stop, or end at a limit."""
    task = session.state.running_task
    if task.question:
        return await session.pause(RunResult("needs_input", task.question))
    choice, words = task.after_turn
    if choice == "stop":
        return await session.end_task("blocked", blocker="the person stopped a call that was held twice")
    if choice == "more":
        await session.record_message(words)
    elif task.stuck and not choice:
        unmet = await explain_unmet(session, task)
        return await session.end_task("blocked", blocker=task.stuck, need=unmet.need if unmet else UNKNOWN_WAY)
    if futile := describe_futile_call(task, session.policy):
        return await session.end_task("blocked", blocker=futile, need="words on how to go on, or another request")
    if limit := find_reached_limit(task, session.policy, session.clock):
        return await session.end_task("budget_exhausted", blocker=limit, need="a higher limit or a smaller request")
    return None


def find_reached_limit(task: TaskState, policy: Policy, clock: Callable[[], str]) -> str:
    """Return a sentence naming the first limit the task has reached, else ""; the clock is read only for time."""
    used = task.used
    for name in (*COUNTED, "wall_clock"):
        bound: int = getattr(policy.limits, name)
        if bound and (value := used[name] if name in used else task.count_active_seconds(clock())) >= bound:
            return f"the task has used {value} of {bound} ({name.replace('_', ' ')}, policy limits.{name})"
    return ""


def describe_futile_call(task: TaskState, policy: Policy) -> str:
    """Return a sentence on the call that a model is stuck on, "" where it is on none."""
    bound = policy.limits.futile_turns
    stuck = next((call for call in task.futile.values() if 0 < bound <= call.turns), None)
    if stuck is None:
        return ""
    often = f"in {stuck.turns} turns, though it had brought nothing new before (policy limits.futile_turns)"
    return f"the model kept sending `{stuck.name[:200]}` {often}"


def find_repeated_hold(in_hand: TurnInHand, judgement: Judgement, policy: Policy) -> Need | None:
    """Return the loop's own question when a call is held or denied again for the same reason on the same evidence."""
    turn, limits = in_hand.turn, policy.limits
    for verdict in judgement.verdicts:
        bound = limits.repeated_holds
        if verdict.ruling.code == "invalid_arguments":
            bound = limits.malformed_calls or bound
        if verdict.standing is Standing.ALLOW or verdict.ruling.code == "not_asked_now" or not bound:
            # What waited for another call was not held for a reason of its own.
            continue
        key = (verdict.digest, verdict.ruling.code, turn.fingerprints.get(verdict.call, ""))
        before = next((h.count for h in turn.holds if (h.digest, h.code, h.fingerprint) == key), 0)
        if before + 1 >= bound:
            call = next(call for call in turn.calls if call.id == verdict.call)
            done = "held" if verdict.standing is Standing.HOLD else "denied"
            name = f"{call.name[:64]} {in_hand.facts[call.id].target[:200]}".strip()
            message = f"`{name}` was {done} {before + 1} times for the same reason: {verdict.ruling.message}"
            gate, code = verdict.gate, verdict.ruling.code
            lasting = gate in ("validity", "evidence") or code in ("denied_by_rule", "gate_error", "outside_mandate")
            can_override = verdict.standing is Standing.HOLD and not lasting
            request: dict[str, Json] = {"question": message, "gate": gate, "code": code, "can_override": can_override}
            facts = in_hand.facts[call.id]
            request["calls"] = [{**describe_call(facts), "digest": call.digest, "scripts": find_scripts(facts)}]
            return Need("loop", "person", message, (call.id,), (call.digest,), request, REPEATED_HOLD)
    return None


async def record_response(session: Session, response: ModelResponse) -> None:
    """Record a response with only the calls that can be judged now; the others follow in rounds."""
    seq = session.state.seq + 1
    stamped = response.stamp_calls(seq)
    program = Dataflow.of(stamped, seq) if stamped.deferred else None
    if program is None:
        body = ModelResponded.of(stamped)
        # What reading it gives, which need not be done at once.
        body.__dict__["response"] = stamped
        await session.record(Draft(body, "model"))
        return
    places = program.find_next_stage(session.policy.limits.calls_per_response).places
    stage = program.build_response(places)
    first = replace(stamped, calls=stage.calls, order=stage.order, deferred=())
    await session.record(Draft(ModelResponded.of(first, program=program.to_record(places)), "model"))


async def record_next_stage(session: Session) -> None:
    """Record the calls of the response that can go now, or answer those that never will, from the log alone."""
    program, task = session.state.program, session.state.running_task
    assert program is not None
    if reason := reason_to_stop_stages(task):
        await answer_remaining(session, *reason)
        return
    stage = program.find_next_stage(session.policy.limits.calls_per_response)
    if stage.dead:
        # what is too many is not even looked at
        looked = tuple(program.calls[at] for at, (code, _) in stage.dead.items() if code != "not_run_too_many")
        facts = session.turns.build_own_turn(program.seq, looked, "model", program.seq).facts
        dead = [(program.calls[at], code, message) for at, (code, message) in stage.dead.items()]
        await session.record(*(draft_answer(call, facts.get(call.id), code, why) for call, code, why in dead))
        return
    continues = Continuation(response=program.seq, places=tuple(stage.places))
    body = ModelResponded.of(program.build_response(stage.places), continues=continues)
    await session.record(Draft(body, "foregate"))


def reason_to_stop_stages(task: TaskState) -> tuple[NotRunCode, str] | None:
    """Return code and message for the rest of a response whose last stage ended in something else, None else."""
    choice, _ = task.after_turn
    if task.question or task.words_only or task.words_only_task:
        return "not_asked_now", "something else of the response must be settled first; then send this one again"
    if choice in ("stop", "more") or (task.stuck and not choice):
        return "not_run_cancelled", "the response was stopped before this one; send it again if it is still wanted"
    return None


async def run_child_task(session: Session, text: str, name: str = "") -> RunResult:
    """Run `text` as a child task of the session's open task; a child that exists already goes on from its log.

    A child that paused with a question takes the parent's newest message as the answer.
    Raises UsageError where the policy's depth is reached, LogError where that child has ended already.
    """
    # It brings the reader of YAML along.
    from foregate.policy.source.load import narrow_limits

    parent = session.state.task
    if session.depth >= session.policy.limits.child_depth:
        raise UsageError("a child task would be deeper than policy limits.child_depth allows")
    name = name or f"{session.name}.{session.state.seq}"
    store = session.log.store
    known = name in await store.sessions()
    state = await fold_session(store, name) if known else None
    spent = count_spent(parent, session.clock()) if parent is not None else {}
    # An answer it was given counts only under the very policy it was asked under.
    spent = read_spent(state) or spent
    lease = await store.claim(name, create=not known)
    layers = {**session.layers, "spent": [*get_list(session.layers, "spent"), spent]}
    inner = session.build_child(lease, narrow_limits(session.policy, spent), layers, state)
    inner.work = session.work
    try:
        if known:
            await resume(inner)
        else:
            dialect = session.state.dialect if session.state.dialect != "native" else ""
            started = session.state.started
            remotes = started.remotes if started is not None else None
            await inner.start(dialect=dialect, parent=session.name, parent_event=session.state.seq, remotes=remotes)
        if session.state.dialect != inner.state.dialect:
            await inner.record(Draft(PolicyChanged(dialect=session.state.dialect), "parent"))
        if session.state.dry_run and not inner.state.dry_run:
            await inner.record(Draft(PolicyChanged(dry_run=True), "parent"))
        if session.state.mode != "direct" and inner.state.mode != "plan":
            # What it does, nobody confirmed.
            await inner.record(Draft(PolicyChanged(mode="plan"), "parent"))
        if inner.state.tasks == 0:
            await start_child_task(inner, parent, text, session.build_leave(name))
        if inner.state.task is None:
            raise LogError(f"the child task `{name}` has ended already; start another")
        if inner.state.task.paused == "needs_input" and parent is not None and parent.messages[-1].actor == "user":
            await inner.record_message(parent.messages[-1].text, "user")
        return replace(await run_to_outcome(inner), used=inner.state.spent)
    finally:
        await inner.close(end=inner.state.task is None)


async def start_child_task(inner: Session, parent: TaskState | None, text: str, leave: Leave | None) -> None:
    """Start the child's task: the person's words as the person's, the task itself as the parent's."""
    begins: dict[str, Any] = {"refusals": tuple(parent.refusals) if parent else (), "leave": leave}
    for words in [message.text for message in parent.messages if message.actor == "user"] if parent else []:
        await inner.record_message(words, "user", **begins)
    await inner.record_message(text, "parent", **begins)


def read_spent(state: SessionState | None) -> Spent:
    """Return what the parent of a child task had used when the child began, {} where its log does not say."""
    layers = state.started.layers if state is not None and state.started is not None else None
    known = get_list(layers, "spent") if layers is not None and "spent" in layers else ()
    return convert(known[-1], Spent) if known else {}


def count_spent(parent: TaskState, now: str) -> Spent:
    """Return what the parent task has used of each limit, by the limit's section and name."""
    counters, used = parent.counters, {name: parent.used[name] for name in COUNTED}
    return {
        "limits": {**used, "wall_clock": parent.count_active_seconds(now)},
        "safety": {"model_calls": counters.safety_calls, "rounds": counters.safety_rounds},
    }
