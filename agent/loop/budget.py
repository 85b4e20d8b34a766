"""What a task may use; the numbers are the policy's."""

from __future__ import annotations

from collections.abc import Callable

from foregate.evidence.state.task import TaskState
from foregate.policy.policy import Policy
from foregate.schemas.codes import REPEATED_HOLD
from foregate.schemas.judgement import Judgement, Need, Standing
from foregate.schemas.strict_json import Json
from foregate.schemas.turn import Turn


def find_reached_limit(task: TaskState, policy: Policy, clock: Callable[[], str]) -> str:
    """Return one sentence naming the first limit the task has reached, "" while there is none.

    The clock is read only where time is limited.
    """
    limits, used = policy.limits, task.used
    for name, bound in (
        ("turns", limits.turns),
        ("model_calls", limits.model_calls),
        ("tool_calls", limits.tool_calls),
        ("tokens", limits.tokens),
        ("cost", limits.cost),
        ("wall_clock", limits.wall_clock),
    ):
        if bound and (value := used[name] if name in used else task.count_active_seconds(clock())) >= bound:
            return f"the task has used {value} of {bound} ({name.replace('_', ' ')}, policy limits.{name})"
    return ""


def find_repeated_hold(turn: Turn, judgement: Judgement, policy: Policy) -> Need | None:
    """Return the loop's own question when a call is held or denied again for the same reason on the same evidence."""
    bound = policy.limits.repeated_holds
    for verdict in judgement.verdicts:
        if verdict.standing is Standing.ALLOW or verdict.ruling.code == "not_asked_now" or not bound:
            continue  # what waited for another call was not held for a reason of its own
        key = (verdict.digest, verdict.ruling.code, turn.fingerprints.get(verdict.call, ""))
        before = next((h.count for h in turn.holds if (h.digest, h.code, h.fingerprint) == key), 0)
        if before + 1 >= bound:
            call = next(call for call in turn.calls if call.id == verdict.call)
            done = "held" if verdict.standing is Standing.HOLD else "denied"
            message = f"`{call.name[:64]}` was {done} {before + 1} times for the same reason: {verdict.ruling.message}"
            request: dict[str, Json] = {
                "question": message,
                "gate": verdict.gate,
                "code": verdict.ruling.code,
                "can_override": verdict.standing is Standing.HOLD
                and verdict.gate not in ("validity", "evidence")
                and verdict.ruling.code not in ("denied_by_rule", "gate_error"),
            }
            return Need("loop", "person", message, (call.id,), (call.digest,), request, REPEATED_HOLD)
    return None
