"""The questions put to people: which gate, rule and policy key made them, and what followed."""

from __future__ import annotations

from msgspec import Struct, structs

from foregate.schemas.judgement import Standing
from foregate.schemas.strict_json import Json
from foregate.telemetry.index.audit_index import AuditIndex
from foregate.telemetry.index.filters import Condition, DecisionFilter, build_place_conditions, join_conditions
from foregate.telemetry.index.rows import STANDINGS

_ASK, _HOLD = STANDINGS.index(Standing.ASK), STANDINGS.index(Standing.HOLD)
_CAUSES = f"""WITH prompts AS (
  SELECT asks.id, asks.gate, asks.answered > 0 AS answered, asks.yes OR asks.choice = 'anyway' AS yes,
    asks.choice, asks.session, turns.seq, asks.not_run, asks.who, asks.by, asks.key
  FROM asks LEFT JOIN turns ON turns.id = asks.turn WHERE who IN ('person', 'words') AND raised = 1 AND {{where}}
), named AS (
  SELECT d.*, g.text AS by, c.text AS says FROM decisions d JOIN words g ON g.id = d.gate JOIN words c ON c.id = d.code
  WHERE d.shadow = 0 AND d.early = 0
), linked AS (
  SELECT p.*, (SELECT d.id FROM named d WHERE d.session = p.session AND d.seq = p.seq AND CASE
      WHEN p.who = 'words' THEN d.by = p.gate
      WHEN p.gate = 'approval' THEN d.standing = {_ASK} OR d.by = 'approval'
      ELSE d.standing >= {_HOLD} OR d.says = 'overridden' END
    ORDER BY d.standing != {_ASK}, d.id LIMIT 1) AS cause,
    (SELECT d.by FROM named d WHERE d.session = p.session AND d.seq = p.seq AND d.standing >= {_HOLD}
      AND (d.by = 'approval' OR d.call IN (SELECT o.call FROM named o WHERE o.session = p.session AND o.seq = p.seq
        AND (o.standing = {_ASK} OR o.says IN ('approval_granted', 'overridden'))))
    ORDER BY d.id LIMIT 1) AS stopped FROM prompts p
)
SELECT coalesce(w.text, linked.by), coalesce(r.text, ''),
  CASE WHEN cause IS NULL THEN linked.key ELSE coalesce(k.text, '') END, count(*), sum(yes),
  sum(answered AND NOT yes), sum(NOT answered),
  sum(yes AND stopped IS NULL AND linked.not_run = '' AND linked.seq IS NOT NULL),
  coalesce(group_concat(DISTINCT CASE WHEN yes THEN coalesce(stopped, nullif(linked.not_run, '')) END), '')
FROM linked LEFT JOIN decisions d ON d.id = cause LEFT JOIN words w ON w.id = d.gate LEFT JOIN words k ON k.id = d.key
LEFT JOIN decision_rules n ON decision = cause AND place = 0 LEFT JOIN words r ON r.id = n.rule
GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3"""  # noqa: S608


class PromptCount(Struct, frozen=True):
    """Questions to a person that one gate, rule and policy key made; the rule is known once one is answered.

    `yes` counts answers that wanted the call, `no` other answers, also those in words, `unanswered` questions without
    an answer, `ran` those with a yes whose calls were then run. `stopped_by` names the gates that held a call after a
    yes, and the codes of what kept it from running where no gate did.
    """

    gate: str
    rule: str
    key: str
    prompts: int
    yes: int
    no: int
    unanswered: int
    ran: int
    stopped_by: str

    def to_json(self) -> dict[str, Json]:
        """Return the row as JSON values, every column present."""
        return structs.asdict(self)


def count_prompts(index: AuditIndex, wanted: DecisionFilter) -> list[PromptCount]:
    """Return what made the questions that were put to people in a selection, the most frequent first.

    Only which sessions and when counts of the selection.
    """
    place = [Condition(f"asks.{one.sql}", one.values) for one in build_place_conditions(wanted)]
    where = join_conditions(place)
    with index.hold():
        return [PromptCount(*row) for row in index.query(_CAUSES.format(where=where.sql), where.values)]
