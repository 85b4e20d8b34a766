"""A case from the log: the recorded decision at an address, cut to what decides it."""

from __future__ import annotations

from foregate.audit.explanation import choose_call, read_turn
from foregate.audit.pieces import UNREADABLE
from foregate.policy.source.load import restore_policy
from foregate.schemas.errors import InvalidJson, LogError, UsageError
from foregate.schemas.judgement import Judgement
from foregate.schemas.protocols import Readable
from foregate.schemas.review import RuledCall
from foregate.schemas.tool_spec import build_catalogue
from foregate.telemetry.audit.decisions import read_decisions
from foregate.telemetry.audit.rebuild_turn import RecordedTurn
from foregate.tuning.case import Case, Fate
from foregate.tuning.cutting import cut_case


def cut_recorded(log: Readable, ruled: RuledCall, name: str = "") -> Case:
    """Return the smallest case with the verdict of a recorded ruling that notices the same changes of its policy.

    Raises UsageError where this version judges the turn otherwise than the log holds, LogError for a damaged log.
    """
    event = next(iter(log.events(ruled.session, after=ruled.seq - 1, until=ruled.seq)))
    (point,) = (one for one in read_decisions([event]) if one.gate == ruled.gate)
    try:
        recorded = read_turn(log, ruled.session, event)
        values, tools = recorded.in_force.require()
        policy, catalogue = restore_policy(values), build_catalogue(tools)
        call = choose_call(recorded, point, ruled.call)
        about = call.id if call is not None else ""
        found = cut_case(name or "recorded", recorded.turn, about, policy, catalogue)
    except InvalidJson as error:
        raise UsageError(f"`{ruled.address}` cannot be made a case ({error}); take another decision") from None
    except UNREADABLE as error:
        why = f"event {ruled.seq} of session `{ruled.session}` cannot be judged again ({type(error).__name__}: {error})"
        raise LogError(f"{why}; `foregate audit verify` tells what was changed") from None
    _require_same(recorded, about, found.expected, ruled)
    return found if name else Case(_name_case(found), found.turn, found.catalogue, found.call, found.expected)


def _require_same(recorded: RecordedTurn, call: str, fate: Fate, ruled: RuledCall) -> None:
    """Raise UsageError where a turn is judged otherwise now than it was."""
    if (was := find_recorded_verdict(recorded.judgement, call)) != (fate.verdict, fate.gate, fate.code):
        then = f"{was[0]} by {was[1]} ({was[2]}) when version {recorded.foregate or 'unknown'} judged it"
        raise UsageError(f"`{ruled.address}` was {then}, and is {fate.describe()} now; take a newer decision")


def find_recorded_verdict(judgement: Judgement, call: str) -> tuple[str, str, str]:
    """Return how a call stands in the log, by which gate and code; of an answer in words what the postlude said."""
    if not call:
        code = judgement.decisions[0].code
        return "hold" if code == "verification_pending" else "allow", "postlude", code
    verdict = judgement.find_verdict(call)
    return verdict.standing.value, verdict.gate, verdict.ruling.code


def _name_case(case: Case) -> str:
    """Return a name that says what a case is about."""
    calls = [call.name for call in case.turn.calls if call.id == case.call]
    return "-".join([case.expected.verdict, *calls, case.expected.code])[:120].replace("_", "-")
