"""Runs calls. Its only entrance is a permit: one allowing verdict of one recorded judgement, used once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from foregate.agent.surveyor import moved_on
from foregate.schemas import codec, strict_json
from foregate.schemas.call_facts import CallFacts
from foregate.schemas.effect import Effect
from foregate.schemas.event import Actor, Draft
from foregate.schemas.permit import Permit
from foregate.schemas.resource import Resource, ResourceKind
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_result import ToolResult

if TYPE_CHECKING:
    from foregate.agent.session import Session

DESTROYS = (Effect.CREATE, Effect.EDIT, Effect.MOVE, Effect.DELETE)


class NoPermit(Exception):
    """Something tried to run a call without an unused permit for exactly this call."""


async def execute(session: Session, permit: Permit, facts: CallFacts, actor: Actor = "model") -> ToolResult | str:
    """Run the call a permit is for; return its result, or the words of a refusal when the world has moved on.

    Appends `tool_started` durably before the effect and `tool_finished` (or `outcome_unknown`) after it.
    Raises NoPermit when the permit is used, unknown or for another call.
    """
    call, state = facts.call, session.state
    if state.permits.get((permit.judged, permit.call)) != permit.digest or call.digest != permit.digest:
        raise NoPermit(f"there is no unused permit for call `{call.id}`")
    own: Mapping[Resource, str] = state.open.own_changes if state.open else {}
    now = session.surveyor.look(call, state)
    if moved := moved_on(facts.survey, now, own):
        return f"`{moved}` changed after this call was judged; look at it again, then repeat the call"
    await session.record(Draft("tool_started", actor, started(session, permit, facts)))
    await session.log.settle(session.lease)
    clock = time.monotonic_ns()
    try:
        result = await asyncio.wait_for(session.tools.run(call), facts.spec.timeout if facts.spec else None)
    except TimeoutError:
        result = ToolResult(False, "the tool did not finish in time", error="timeout", unknown=facts.changes)
    except asyncio.CancelledError:
        await session.record(Draft("outcome_unknown", "foregate", lost(facts, "cancelled"))) if facts.changes else (
            await session.record(finished(facts, ToolResult(False, "cancelled", error="cancelled"), 0, actor))
        )
        raise
    except Exception as error:
        result = ToolResult(False, f"{type(error).__name__}: {error}"[:2000], error="tool_error", unknown=facts.changes)
    elapsed = (time.monotonic_ns() - clock) // 1_000_000
    if result.unknown:
        await session.record(Draft("outcome_unknown", "foregate", lost(facts, result.error or result.content[:200])))
    else:
        await session.record(finished(facts, result, elapsed, actor))
    return result


def started(session: Session, permit: Permit, facts: CallFacts) -> Json:
    """Return what is durable before the effect: permit, class, before-images, and what a probe would need."""
    before = []
    for resource in facts.resources:
        if resource.kind is ResourceKind.FILE and resource.access in DESTROYS:
            image = session.blobs.put(session.workspace.read(resource.id)) if resource.exists else ""
            before.append({"kind": resource.kind.value, "id": resource.id, "image": image})
    return {
        "call": facts.call.id,
        "tool": facts.call.name,
        "target": facts.target,
        "permit": codec.dump(permit),
        "class": side_effect_class(facts),
        "effect": facts.effect.value,
        "before": before,
    }


def side_effect_class(facts: CallFacts) -> str:
    """Return `pure`, `idempotent` or `at_most_once`: what recovery may do with a call that never finished."""
    if not facts.changes:
        return "pure"
    return "idempotent" if facts.capabilities.idempotent else "at_most_once"


def finished(facts: CallFacts, result: ToolResult, elapsed: int, actor: Actor) -> Draft:
    """Return the event of a call that ran: what it said, observed and changed. `duration` in milliseconds."""
    body: dict[str, Json] = {
        "call": facts.call.id,
        "tool": facts.call.name,
        "target": facts.target,
        "ok": result.ok,
        "content": strict_json.scrub(result.content),
        "duration": elapsed,
        "origin": result.origin.value,
        "evidence": [codec.dump(record) for record in result.evidence],
        "changes": [codec.dump(change) for change in result.changes],
    }
    if result.error:
        body["error"] = result.error
    if result.dropped:
        body["dropped"] = result.dropped
    if result.used:
        body["used"] = dict(result.used)
    if result.exit_code is not None:
        body["exit_code"] = result.exit_code
    return Draft("tool_finished", "tool" if actor == "model" else actor, body)


def lost(facts: CallFacts, reason: str) -> Json:
    """Return the body of an effect nobody can vouch for."""
    return {"call": facts.call.id, "tool": facts.call.name, "target": facts.target, "reason": reason}
