"""What gates in shadow would have done, over the decisions of a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from foregate.schemas.judgement import Standing
from foregate.schemas.strict_json import Json
from foregate.telemetry.index.filters import Condition, DecisionFilter, build_decision_conditions, join_conditions
from foregate.telemetry.index.rows import STANDINGS, DecisionRow

if TYPE_CHECKING:
    from foregate.telemetry.index.audit_index import AuditIndex

_WOULD = {Standing.HOLD: "held", Standing.ASK: "asked", Standing.DENY: "denied"}
_STOPPING = ", ".join(str(STANDINGS.index(standing)) for standing in _WOULD)


class ShadowReport(Struct, frozen=True):
    """What one gate recorded in shadow: in how many sessions and decisions, and how many calls it would have `held`,
    `asked` about and `denied`. `also` counts those that another gate stopped or asked about all the same; `newest` are
    the last few."""

    gate: str
    sessions: int
    asked: int
    would: dict[str, int]
    also: int
    newest: tuple[DecisionRow, ...] = ()

    def to_json(self) -> Json:
        """Return the report as JSON values."""
        told: dict[str, Json] = {"gate": self.gate, "sessions": self.sessions, "decisions": self.asked}
        return told | {"would": dict(self.would), "also": self.also, "newest": [one.to_json() for one in self.newest]}


def report_shadows(index: AuditIndex, wanted: DecisionFilter, newest: int) -> list[ShadowReport]:
    """Return a report for each gate that was in shadow, of the decisions that fit, with so many of the newest."""
    conditions = [*build_decision_conditions(wanted, full_text=index.full_text), Condition("shadow = 1 AND early = 0")]
    where = join_conditions(conditions)
    asked = f"""SELECT words.text, count(*), count(DISTINCT session) FROM decisions
  JOIN words ON words.id = gate WHERE main = 1 AND {where.sql} GROUP BY gate ORDER BY min(decisions.id)"""  # noqa: S608
    with index.hold():
        gates = index.query(asked, where.values)
        return [_report_gate(index, (gate, sessions, count), where, wanted, newest) for gate, count, sessions in gates]


def _report_gate(
    index: AuditIndex, counted: tuple[str, int, int], where: Condition, wanted: DecisionFilter, newest: int
) -> ShadowReport:
    gate, sessions, asked = counted
    values: Sequence[object] = (*where.values, gate)
    mine = f"{where.sql} AND gate = (SELECT id FROM words WHERE text = ?)"  # noqa: S608
    by_standing = f"SELECT standing, count(*) FROM decisions WHERE {mine} GROUP BY standing"  # noqa: S608
    counts = {STANDINGS[standing]: count for standing, count in index.query(by_standing, values)}
    stopped = f"""SELECT count(*) FROM decisions AS mine WHERE standing IN ({_STOPPING}) AND EXISTS (
  SELECT 1 FROM decisions AS other WHERE other.session = mine.session AND other.seq = mine.seq
  AND other.call = mine.call AND other.shadow = 0 AND other.standing IN ({_STOPPING})
) AND mine.id IN (SELECT id FROM decisions WHERE {mine})"""  # noqa: S608
    also = int(index.query(stopped, values)[0][0])
    would = {word: counts.get(standing, 0) for standing, word in _WOULD.items()}
    rows = _find_newest(index, gate, wanted, newest) if any(would.values()) else ()
    return ShadowReport(gate, sessions, asked, would, also, tuple(rows))


def _find_newest(index: AuditIndex, gate: str, wanted: DecisionFilter, newest: int) -> list[DecisionRow]:
    from msgspec.structs import replace

    found: list[DecisionRow] = []
    for row in index.stream_decisions(replace(wanted, gate=(gate,), passed=False)) if newest else ():
        if row.mode == "shadow" and row.standing != Standing.ALLOW.value:
            found.append(row)
        if len(found) == newest:
            break
    return found
