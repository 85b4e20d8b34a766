"""Counts over any selection, from the rows of the index: what gates did, what made prompts, what shadow gates saw."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from foregate.schemas import strict_json
from foregate.schemas.codes import GATES
from foregate.schemas.errors import LogError
from foregate.schemas.judgement import Standing
from foregate.schemas.strict_json import Json
from foregate.telemetry.queries.audit_index import AuditIndex
from foregate.telemetry.queries.filters import (
    DecisionFilter,
    SqlCondition,
    build_decision_condition,
    join_conditions,
    list_place_conditions,
    list_session_conditions,
)
from foregate.telemetry.queries.rows import STANDINGS, DecisionRow, ListRow

_FIRED = {Standing.ASK: "asked_person", Standing.HOLD: "held", Standing.DENY: "denied"}
_ASK, _HOLD = STANDINGS.index(Standing.ASK), STANDINGS.index(Standing.HOLD)
_ALL = SqlCondition("1")


class GateStatistics(Struct):
    """How often a gate was asked about a turn, fired, and was overridden by a person; apart what it did in shadow.

    Of what it fired it `asked_person`, `held` or `denied`; the rest has another consequence.
    """

    asked: int = 0
    fired: int = 0
    asked_person: int = 0
    held: int = 0
    denied: int = 0
    overridden: int = 0
    shadow_asked: int = 0
    shadow_fired: int = 0

    def add(self, standing: Standing, *, fired: int, asked: int = 1, shadow: bool = False) -> None:
        """Count decisions, `asked` of them, that said `standing`; `fired` of these fired."""
        if shadow:
            self.shadow_asked += asked
            self.shadow_fired += fired
            return
        self.asked += asked
        self.fired += fired
        if (name := _FIRED.get(standing)) is not None:
            setattr(self, name, getattr(self, name) + fired)


class AdviceCost(Struct):
    """What asking the planner or the critic cost: requests to the model, tokens in and out, and the time it took."""

    calls: int = 0
    tokens: int = 0
    milliseconds: int = 0

    @property
    def seconds(self) -> float:
        """The time in seconds, to a tenth."""
        return round(self.milliseconds / 1000, 1)

    def to_json(self) -> Json:
        """Return it as JSON values."""
        return {"model_calls": self.calls, "tokens": self.tokens, "seconds": self.seconds}


class Statistics(Struct):
    """What the gates did in a selection, and what that cost. `waited` has by seconds how often a person took so long
    to say yes or no; `approvals` and `questions` count answers by what they say."""

    sessions: int = 0
    tasks: int = 0
    turns: int = 0
    calls: int = 0
    held: int = 0
    gates: dict[str, GateStatistics] = field(
        default_factory=lambda: {gate: GateStatistics() for gate in (*GATES, "postlude")}
    )
    advice: dict[str, AdviceCost] = field(default_factory=lambda: {"planner": AdviceCost(), "critic": AdviceCost()})
    approvals: Counter[str] = field(default_factory=Counter)
    questions: Counter[str] = field(default_factory=Counter)
    waited: Counter[int] = field(default_factory=Counter)
    rules: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> Json:
        """Return everything as JSON values."""
        yes, answered = self.approvals["yes"], self.approvals["answered"]
        return {
            **{name: getattr(self, name) for name in ("sessions", "tasks", "turns", "calls", "held")},
            "held_per_task": round(self.held / self.tasks, 3) if self.tasks else None,
            "gates": {gate: asdict(counts) for gate, counts in self.gates.items()},
            "advice": {who: cost.to_json() for who, cost in self.advice.items()},
            "approvals": {
                "asked": self.approvals["asked"],
                "answered": answered,
                "accepted": yes,
                "share_accepted": round(yes / answered, 3) if answered else None,
                "median_seconds": self.median_wait,
            },
            "repeated_holds": {name: self.questions[name] for name in ("asked", "anyway", "stop", "more")},
            "rules": dict(self.rules),
            "rules_never_fired": [name for name, count in self.rules.items() if not count],
        }

    @property
    def median_wait(self) -> int | None:
        """The median of the seconds a person took to say yes or no, None when nobody did."""
        # Few commands count, and loading it takes as long as all of this file.
        from statistics import median

        return round(median(self.waited.elements())) if self.waited else None


def count_selection(index: AuditIndex, wanted: DecisionFilter) -> Statistics:
    """Return what the gates did in a selection, and what that cost.

    A filter that says more than which sessions and when selects decisions: gates and rules are counted by them, and all
    else by the turns they were made in. Raises LogError where a session of the selection cannot be read whole.
    """
    with index.hold():
        return _Counter(index, replace(wanted, passed=True)).count()


class _Counter:
    def __init__(self, index: AuditIndex, wanted: DecisionFilter) -> None:
        self._index, self._found, self._own = index, Statistics(), wanted.has_own
        self._place = join_conditions(list_place_conditions(wanted))
        self._decisions = build_decision_condition(wanted, full_text=index.full_text)
        self._sessions = join_conditions(list_session_conditions(wanted))
        if self._own:
            index.choose_decisions(wanted)

    def count(self) -> Statistics:
        for name, problem in self._select(
            "SELECT name, problem FROM sessions WHERE problem != '' AND {} LIMIT 1", self._sessions
        ):
            raise LogError(f"session `{name}`: {problem}")
        self._count_turns()
        self._count_gates()
        self._count_rules()
        self._count_answers()
        query = "SELECT gate, count(*) FROM overrides WHERE {} GROUP BY gate"
        for gate, count in self._select(query, self._of_turn("turn")):
            if counts := self._found.gates.get(gate):
                counts.overridden += count
        return self._found

    def _select(self, query: str, where: SqlCondition) -> list[Any]:
        """Return the rows of a query of ours with a condition in the place of its braces."""
        return self._index.query(query.format(where.sql), where.values)

    def _of_turn(self, column: str) -> SqlCondition:
        """Return the condition on rows that have a session, a time, and the turn they belong to in a column."""
        return SqlCondition(f"{column} IN (SELECT id FROM chosen_turns)") if self._own else self._place  # noqa: S608

    def _count_turns(self) -> None:
        found, turns = self._found, self._of_turn("id")
        query = "SELECT count(*), coalesce(sum(calls), 0), coalesce(sum(stopped), 0) FROM turns WHERE early = 0 AND {}"
        ((found.turns, found.calls, found.held),) = self._select(query, turns)
        if self._own:
            of_turns = "SELECT count(DISTINCT session), count(DISTINCT session || '.' || task) FROM turns WHERE {}"
            ((found.sessions, found.tasks),) = self._select(of_turns, turns)
        else:
            found.sessions = self._select("SELECT count(*) FROM sessions WHERE {}", self._sessions)[0][0]
            found.tasks = self._select("SELECT count(*) FROM tasks WHERE {}", self._place)[0][0]

    def _count_gates(self) -> None:
        if not self._own:
            self._add_gates("decisions INDEXED BY decisions_by_gate WHERE early = 0 AND main = 1 AND {}", self._place)
            return
        self._add_gates("chosen WHERE main = 1 AND {}", _ALL)
        # Of several rulings of one decision others than the first may have been chosen, without it.
        others = """SELECT gate, shadow, fired, max(standing) AS standing FROM chosen
  GROUP BY turn, gate, shadow, fired HAVING max(main) = 0"""
        if self._select("SELECT 1 FROM chosen WHERE main = 0 AND {} LIMIT 1", _ALL):
            self._add_gates(f"({others}) WHERE {{}}", _ALL)

    def _add_gates(self, rows: str, where: SqlCondition) -> None:
        query = f"""SELECT words.text, shadow, standing, asked, fired FROM (
  SELECT gate, shadow, standing, count(*) AS asked, sum(fired) AS fired FROM {rows} GROUP BY gate, shadow, standing
) JOIN words ON words.id = gate"""  # noqa: S608
        for gate, shadow, standing, asked, fired in self._select(query, where):
            # Else a name of another version.
            if (counts := self._found.gates.get(gate)) is not None:
                counts.add(STANDINGS[standing], asked=asked, fired=fired, shadow=bool(shadow))

    def _count_rules(self) -> None:
        known = """SELECT words.text FROM session_policies JOIN policy_rules USING (policy)
  JOIN words ON words.id = policy_rules.rule JOIN sessions ON sessions.id = session_policies.session
  WHERE sessions.id IN (SELECT id FROM sessions WHERE {})
  GROUP BY policy_rules.rule ORDER BY max(sessions.number) DESC, min(policy_rules.place)"""
        self._found.rules = {rule: 0 for (rule,) in self._select(known, self._sessions)}
        # The few rows that name a rule are gone through, and not all decisions.
        counted = """SELECT words.text, matches FROM (
  SELECT rule, count(*) AS matches FROM decision_rules CROSS JOIN decisions ON decisions.id = decision_rules.decision
  WHERE early = 0 AND {} GROUP BY rule
) JOIN words ON words.id = rule"""
        self._found.rules |= dict(self._select(counted, self._decisions))

    def _count_answers(self) -> None:
        found, where = self._found, self._of_turn("turn")
        query = """SELECT who, sum(model_calls), sum(tokens), coalesce(sum(took), 0) FROM asks
  WHERE who != 'person' AND {} GROUP BY who"""
        for who, *cost in self._select(query, where):
            if who in found.advice:
                found.advice[who] = AdviceCost(*cost)
        query = """SELECT gate = 'approval', raised, answered > 0, yes, choice, count(*) FROM asks
  WHERE who = 'person' AND gate IN ('approval', 'loop') AND {} GROUP BY 1, 2, 3, 4, 5"""
        for approval, raised, answered, yes, choice, count in self._select(query, where):
            asked = found.approvals if approval else found.questions
            asked["asked"] += count * raised
            if approval and answered:
                found.approvals["answered"] += count
                found.approvals["yes"] += count * yes
            elif answered:
                found.questions[choice] += count
        query = """SELECT (took + 500) / 1000, count(*) FROM asks
  WHERE who = 'person' AND gate = 'approval' AND took IS NOT NULL AND {} GROUP BY 1"""
        found.waited.update(dict(self._select(query, where)))


class PromptCount(ListRow, frozen=True):
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


def count_prompts(index: AuditIndex, wanted: DecisionFilter) -> list[PromptCount]:
    """Return what made the questions that were put to people in a selection, the most frequent first.

    Only which sessions and when counts of the selection.
    """
    place = [SqlCondition(f"asks.{one.sql}", one.values) for one in list_place_conditions(wanted)]
    where = join_conditions(place)
    with index.hold():
        return [PromptCount(*row) for row in index.query(_CAUSES.format(where=where.sql), where.values)]


_WOULD = {Standing.HOLD: "held", Standing.ASK: "asked", Standing.DENY: "denied"}
_STOPPING = ", ".join(str(STANDINGS.index(standing)) for standing in _WOULD)


class ShadowReport(ListRow, frozen=True):
    """What one gate recorded in shadow: in how many sessions and `decisions`, and how many calls it would have `held`,
    `asked` about and `denied`. `also` counts those that another gate stopped or asked about all the same; `newest` are
    the last few."""

    gate: str
    sessions: int
    decisions: int
    would: dict[str, int]
    also: int
    newest: tuple[DecisionRow, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Return the report as JSON values."""
        return strict_json.dump(self) | {"newest": [one.to_json() for one in self.newest]}


def report_shadows(index: AuditIndex, wanted: DecisionFilter, newest: int) -> list[ShadowReport]:
    """Return a report for each gate that was in shadow, of the decisions that fit, with so many of the newest."""
    chosen = build_decision_condition(wanted, full_text=index.full_text)
    where = join_conditions([chosen, SqlCondition("shadow = 1 AND early = 0")])
    asked = f"""SELECT words.text, count(*), count(DISTINCT session) FROM decisions
  JOIN words ON words.id = gate WHERE main = 1 AND {where.sql} GROUP BY gate ORDER BY min(decisions.id)"""  # noqa: S608
    with index.hold():
        found = []
        for gate, count, sessions in index.query(asked, where.values):
            would, also = _count_shadow(index, gate, where)
            rows = _find_newest(index, gate, wanted, newest) if any(would.values()) else []
            found.append(ShadowReport(gate, sessions, count, would, also, tuple(rows)))
        return found


def _count_shadow(index: AuditIndex, gate: str, where: SqlCondition) -> tuple[dict[str, int], int]:
    """Return how many calls a gate would have stopped, and how many of them another gate stopped all the same."""
    mine, values = f"{where.sql} AND gate = (SELECT id FROM words WHERE text = ?)", (*where.values, gate)  # noqa: S608
    by_standing = f"SELECT standing, count(*) FROM decisions WHERE {mine} GROUP BY standing"  # noqa: S608
    counts = {STANDINGS[standing]: count for standing, count in index.query(by_standing, values)}
    stopped = f"""SELECT count(*) FROM decisions AS mine WHERE standing IN ({_STOPPING}) AND EXISTS (
  SELECT 1 FROM decisions AS other WHERE other.session = mine.session AND other.seq = mine.seq
  AND other.call = mine.call AND other.shadow = 0 AND other.standing IN ({_STOPPING})
) AND mine.id IN (SELECT id FROM decisions WHERE {mine})"""  # noqa: S608
    return {word: counts.get(standing, 0) for standing, word in _WOULD.items()}, index.query(stopped, values)[0][0]


def _find_newest(index: AuditIndex, gate: str, wanted: DecisionFilter, newest: int) -> list[DecisionRow]:
    found: list[DecisionRow] = []
    for row in index.stream_decisions(replace(wanted, gate=(gate,), passed=False)) if newest else ():
        if row.mode == "shadow" and row.standing != Standing.ALLOW.value:
            found.append(row)
        if len(found) == newest:
            break
    return found
