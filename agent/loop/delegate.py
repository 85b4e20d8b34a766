"""Child tasks: one deeper, in a log of their own, never allowed more than the task that started them."""

from __future__ import annotations

from msgspec.structs import replace

from foregate.agent.loop.runner import run_to_outcome
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import COUNTED, Session, fold_session, resume
from foregate.evidence.state.task import TaskState
from foregate.policy.source.record import narrow_limits
from foregate.schemas.errors import LogError, UsageError
from foregate.schemas.event import Draft
from foregate.schemas.event_body import PolicyChanged
from foregate.schemas.strict_json import get_list
from foregate.schemas.turn import Refusal


async def run_child_task(session: Session, text: str, name: str = "") -> RunResult:
    """Run `text` as a child task of the session's open task; a child that exists already goes on from its log.

    A child that paused with a question takes the parent's newest message as the answer.
    Raises UsageError where the policy's depth is reached, LogError where that child has ended already.
    """
    parent = session.state.task
    if session.depth >= session.policy.limits.child_depth:
        raise UsageError("a child task would be deeper than policy limits.child_depth allows")
    spent = count_spent(parent, session.clock()) if parent is not None else {}
    name = name or f"{session.name}.{session.state.seq}"
    store = session.log.store
    known = name in await store.sessions()
    lease = await store.claim(name, create=not known)
    inner = Session(
        log=store,
        lease=lease,
        blobs=session.blobs,
        model=session.model,
        tools=session.tools,
        policy=narrow_limits(session.policy, spent),
        layers={**session.layers, "spent": [*get_list(session.layers, "spent"), spent]},
        workspace=session.workspace,
        state=await fold_session(store, name) if known else None,
        person=session.person,
        clock=session.clock,
        listeners=session.log.listeners,
        depth=session.depth + 1,
        delegate=session.delegate,
        prefetch=session.prefetch,
        secrets=session.secrets,
    )
    try:
        if known:
            await resume(inner)
        else:
            dialect = session.state.dialect if session.state.dialect != "native" else ""
            await inner.start(dialect=dialect, parent=session.name, parent_event=session.state.seq)
        if session.state.dialect != inner.state.dialect:
            await inner.record(Draft(PolicyChanged(dialect=session.state.dialect), "parent"))
        if session.state.dry_run and not inner.state.dry_run:
            await inner.record(Draft(PolicyChanged(dry_run=True), "parent"))
        if session.state.mode != "direct" and inner.state.mode != "plan":
            await inner.record(Draft(PolicyChanged(mode="plan"), "parent"))  # what it does, nobody confirmed
        if inner.state.tasks == 0:
            await start_child_task(inner, parent, text)
        if inner.state.task is None:
            raise LogError(f"the child task `{name}` has ended already; start another")
        if inner.state.task.paused == "needs_input" and parent is not None:
            await inner.record_message(parent.messages[-1].text, "user")
        return replace(await run_to_outcome(inner), used=inner.state.spent)
    finally:
        await inner.close(end=inner.state.task is None)


async def start_child_task(inner: Session, parent: TaskState | None, text: str) -> None:
    """Start the child's task: the person's words as the person's, the task itself as the parent's."""
    refusals: tuple[Refusal, ...] | None = tuple(parent.refusals) if parent else ()
    for words in [message.text for message in parent.messages if message.actor == "user"] if parent else []:
        await inner.record_message(words, "user", refusals=refusals)
        refusals = None
    await inner.record_message(text, "parent", refusals=refusals)


def count_spent(parent: TaskState, now: str) -> dict[str, dict[str, int]]:
    """Return what the parent task has used of each limit, by the limit's section and name."""
    counters, used = parent.counters, {name: parent.used[name] for name in COUNTED}
    return {
        "limits": {**used, "wall_clock": parent.count_active_seconds(now)},
        "safety": {"model_calls": counters.safety_calls, "rounds": counters.safety_rounds},
    }
