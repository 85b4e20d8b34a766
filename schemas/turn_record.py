"""A turn as its event holds it, and as one self-contained document."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import RecordedCall, record_calls
from foregate.schemas.turn import Turn, TurnBasis


class PlanUse(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The event that accepted the plan in force, and how much of each of its items is used."""

    seq: int
    used: tuple[int, ...]


class TurnRecord(TurnBasis, frozen=True, kw_only=True):
    """A turn as `turn_judged` holds it: what lies in other events is named by its number.

    `proposed` are calls that stand in no response, for Foregate made them. `judged_calls` says how many calls of the
    response were judged, None for all of them.
    """

    user_messages: tuple[int, ...]
    answers: tuple[int, ...] = ()
    plan: PlanUse | None = None
    proposed: tuple[RecordedCall, ...] | None = None
    judged_calls: int | None = None

    @classmethod
    def of(cls, turn: Turn, judged_calls: int | None = None) -> TurnRecord:
        """Return the recorded form of a turn."""
        own_calls = tuple(RecordedCall(id=call.id, name=call.name, arguments=call.raw) for call in turn.calls)
        return cls(
            **read_basis(turn),
            user_messages=tuple(said.seq for said in turn.user_messages),
            answers=tuple(answer.seq for answer in turn.answers),
            plan=PlanUse(seq=turn.plan.seq, used=tuple(item.used for item in turn.plan.items)) if turn.plan else None,
            proposed=own_calls if own_calls and turn.actor != "model" else None,
            judged_calls=judged_calls,
        )


def read_basis(turn: TurnBasis) -> dict[str, Any]:
    """Return what turns and their records have in common, by field."""
    return {name: getattr(turn, name) for name in TurnBasis.__struct_fields__}


def export_turn(turn: Turn) -> Json:
    """Return the self-contained form of a turn, for judging in another process; calls with their arguments as sent."""
    calls = [strict_json.dump(recorded) for recorded in record_calls(turn.calls)]
    return {**strict_json.dump(turn, exclude=frozenset({"calls"})), "calls": calls}


def import_turn(data: Json) -> Turn:
    """Return the turn that an exported form describes; raise InvalidJson where it describes none."""
    if not isinstance(data, dict) or not isinstance(data.get("calls"), list):
        raise InvalidJson("not an exported turn: an object with `calls` is wanted")
    calls = tuple(strict_json.load(RecordedCall, call).call for call in data["calls"])
    return replace(strict_json.load(Turn, {**data, "calls": ()}), calls=calls)
