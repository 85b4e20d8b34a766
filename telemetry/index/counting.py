"""The statistics over any selection, from the rows of the index: the same counts as a fold over all events gives."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from foregate.schemas.errors import LogError
from foregate.telemetry.audit.decisions import Statistics
from foregate.telemetry.index.audit_index import AuditIndex
from foregate.telemetry.index.filters import (
    Condition,
    DecisionFilter,
    SessionFilter,
    build_decision_conditions,
    build_place_conditions,
    build_session_conditions,
    join_conditions,
)
from foregate.telemetry.index.rows import STANDINGS


def count_selection(index: AuditIndex, wanted: DecisionFilter) -> Statistics:
    """Return what the gates did in a selection, and what that cost.

    A filter that says more than which sessions and when selects decisions: gates and rules are counted by them, and all
    else by the turns they were made in. Raises LogError where a session of the selection cannot be read whole.
    """
    with index.hold():
        return _Counter(index, replace(wanted, passed=True)).count()


class _Counter:
    def __init__(self, index: AuditIndex, wanted: DecisionFilter) -> None:
        self._index, self._found = index, Statistics()
        self._place = join_conditions(build_place_conditions(wanted))
        self._decisions = join_conditions(build_decision_conditions(wanted, full_text=index.full_text))
        self._own = wanted.has_own
        if self._own:
            index.choose_decisions(wanted)
        of_session = SessionFilter(
            sessions=wanted.sessions,
            since=wanted.since,
            until=wanted.until,
            workspace=wanted.workspace,
            model=wanted.model,
            who=wanted.who,
        )
        self._sessions = join_conditions(build_session_conditions(of_session, (), full_text=index.full_text))

    def count(self) -> Statistics:
        self._refuse_unreadable()
        self._count_turns()
        self._count_gates()
        self._count_rules()
        self._count_answers()
        query = "SELECT gate, count(*) FROM overrides WHERE {} GROUP BY gate"
        for gate, count in self._select(query, self._of_turn("turn")):
            if counts := self._found.gates.get(gate):
                counts.overridden += count
        return self._found

    def _refuse_unreadable(self) -> None:
        query = "SELECT name, problem FROM sessions WHERE problem != '' AND {} LIMIT 1"
        for name, problem in self._select(query, self._sessions):
            raise LogError(f"session `{name}`: {problem}")

    def _select(self, query: str, where: Condition) -> list[Any]:
        """Return the rows of a query of ours with a condition in the place of its braces."""
        return self._index.query(query.format(where.sql), where.values)

    def _of_turn(self, column: str) -> Condition:
        """Return the condition on rows that have a session, a time, and the turn they belong to in a column."""
        return Condition(f"{column} IN (SELECT id FROM chosen_turns)") if self._own else self._place  # noqa: S608

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
        self._add_gates("chosen WHERE main = 1 AND {}", Condition("1"))
        # Of several rulings of one decision others than the first may have been chosen, without it.
        others = """SELECT gate, shadow, fired, max(standing) AS standing FROM chosen
  GROUP BY turn, gate, shadow, fired HAVING max(main) = 0"""
        if self._select("SELECT 1 FROM chosen WHERE main = 0 AND {} LIMIT 1", Condition("1")):
            self._add_gates(f"({others}) WHERE {{}}", Condition("1"))

    def _add_gates(self, rows: str, where: Condition) -> None:
        query = f"""SELECT words.text, shadow, standing, asked, fired FROM (
  SELECT gate, shadow, standing, count(*) AS asked, sum(fired) AS fired FROM {rows} GROUP BY gate, shadow, standing
) JOIN words ON words.id = gate"""  # noqa: S608
        for gate, shadow, standing, asked, fired in self._select(query, where):
            if (counts := self._found.gates.get(gate)) is not None:  # else a name of another version
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
        for who, requests, tokens, took in self._select(query, where):
            if cost := found.advice.get(who):
                cost.calls, cost.tokens, cost.milliseconds = requests, tokens, took
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
