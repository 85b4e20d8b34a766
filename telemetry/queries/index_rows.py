"""The rows of the index: those of a judged turn's decisions, and what writes them, texts that many rows have once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from foregate.schemas.codes import CODES, GATES
from foregate.schemas.errors import ForegateError
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.judgement import Decision, Judgement, Need, Standing
from foregate.schemas.strict_json import scrub
from foregate.telemetry.queries.decisions import has_fired, has_only_passed, order_rulings
from foregate.telemetry.queries.index_tables import OF_SESSION, has_full_text
from foregate.telemetry.queries.rows import SEVERITIES, STANDINGS

UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, ForegateError)
"""What reading a record raises that does not say what it should."""
Intern = Callable[[str], int]
"""From a text to the number it has in the index."""


class IndexedCall(Struct, frozen=True):
    """A call of a turn: its name and target, who said the target first, and its risk in thousandths."""

    tool: str
    target: str
    origin: str
    risk: int


def list_decision_values(
    event: Event, body: TurnJudged, calls: Mapping[str, IndexedCall], intern: Intern
) -> Iterator[tuple[dict[str, Any], tuple[str, ...], str]]:
    """Yield the columns of each row, its rules, and the text by which it is found, "" for one that only passed."""
    part = 0
    alone = [verdict.call for verdict in body.judgement.verdicts]
    for decision in body.judgement.rows:
        passed, fired = has_only_passed(decision), has_fired(decision)
        decided = fired or decision.code == "overridden" or is_asked_for_itself(decision, body.judgement)
        turn = {
            "gate": intern(decision.gate),
            "gate_name": decision.gate,
            "mode": intern(decision.mode),
            "policy": intern(event.policy),
            "seq": event.seq,
            "passed": passed,
            "fired": fired,
            "early": body.early,
            "shadow": decision.mode == "shadow",
            "key": intern(find_key(decision, decided)),
        }
        for number, ruling in enumerate(order_rulings(decision) or [None]):
            call = ruling.call if ruling is not None else (alone[0] if len(alone) == 1 else "")
            about = calls.get(call)
            main = number == 0
            risks = [about.risk] if about is not None else [one.risk for one in calls.values()] if not call else []
            tool, target = _name_call(decision, about, main and bool(decision.tool))
            summary = decision.summary if main or ruling is None else ruling.message or ruling.reason
            standing = ruling.standing if ruling is not None else Standing.ALLOW
            values = {
                **turn,
                "part": part,
                "main": main,
                "code": intern(decision.code if ruling is None else ruling.code),
                "standing": STANDINGS.index(standing),
                "severity": SEVERITIES.index(decision.severity),
                "tool": intern(tool),
                "target": intern(target),
                "call": intern(call),
                "origin": intern(about.origin if about is not None else ""),
                "risk": max(risks, default=None),
                "summary": scrub(summary),
            }
            reason = ruling.reason if ruling is not None else ""
            words = "" if passed else "\n".join(dict.fromkeys(filter(None, (tool, target, summary, reason))))
            yield values, decision.rules if main else (), words
            part += 1


def _name_call(decision: Decision, about: IndexedCall | None, own: bool) -> tuple[str, str]:
    if own or about is None:
        return decision.tool if own else "", decision.target if own else ""
    return about.tool, about.target


def is_asked_for_itself(decision: Decision, judgement: Judgement) -> bool:
    """Whether a person answered what the mode of the gate `approval` asks about, and no other gate."""
    rulings = (ruling for one in judgement.decisions if one.mode != "shadow" for ruling in one.rulings)
    asked = {ruling.call for ruling in rulings if ruling.standing is Standing.ASK}
    return decision.gate == "approval" and "by" in decision.detail and not asked


def find_cause(need: Need) -> tuple[str, str]:
    """Return the gate and the policy key that made a question, before a judgement tells of them and of the rule."""
    gate = next((gate for gate, codes in CODES.items() if need.code in codes), need.gate)
    if need.code in _KEYS:
        return gate, _KEYS[need.code]
    return gate, f"{gate}.mode" if gate in (*GATES, "postlude") else ""


_KEYS = {"outside_mandate": "mandate.mode", "asked_by_rule": "rules.list"}


def find_key(decision: Decision, fired: bool) -> str:
    """Return the policy key that decided: its rule, the bound that was reached, or the mode of the gate that fired."""
    if decision.code == "outside_mandate":
        return "mandate.mode"
    if decision.rules:
        return f"rules.list.{decision.rules[0]}"
    reached = [number for number in decision.numbers if number.value >= number.bound]
    if numbers := reached or decision.numbers:
        return numbers[0].path
    return f"{decision.gate}.mode" if fired and decision.gate in (*GATES, "postlude") else ""


SEARCHED = 65_536
"""Characters of a text whose words are kept; a search says where a text was longer."""
_KNOWN = 200_000


class RowWriter:
    """Writes rows over `connection`, each inside a transaction of the caller's."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[str, int] = {}
        self._seen = -1
        self._full_text = has_full_text(connection)

    def begin(self) -> None:
        """Forget what is known of the file where another process has written since; to be called in a transaction."""
        (seen,) = self._connection.execute("PRAGMA data_version").fetchone()
        if seen != self._seen or len(self._known) > _KNOWN:
            self._known, self._seen = {"": 0}, seen

    def forget(self) -> None:
        """Forget what is known, as after a transaction that was taken back."""
        self._known = {"": 0}

    def intern(self, text: str) -> int:
        """Return the number of a text, which gets one where it has none."""
        if (found := self._known.get(text)) is not None:
            return found
        clean = scrub(text)
        row = self._connection.execute("SELECT id FROM words WHERE text = ?", (clean,)).fetchone()
        number = row[0] if row else self.insert("words", text=clean)
        self._known[text] = number
        return int(number)

    def insert(self, table: str, **values: Any) -> int:
        """Write a row and return its number."""
        names = ", ".join(values)
        places = ", ".join("?" * len(values))
        query = f"INSERT INTO {table} ({names}) VALUES ({places})"  # noqa: S608
        return self._connection.execute(query, tuple(values.values())).lastrowid or 0

    def insert_missing(self, table: str, *values: int) -> None:
        """Write a row of a table without row numbers unless it is there."""
        self._connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(values))})", values)  # noqa: S608

    def add_text(
        self, text: str, *, session: int, seq: int, at: int, time: str, what: str, decision: int | None = None
    ) -> None:
        """Make a text of an event one that is searched."""
        if not text.strip():
            return
        place = {"session": session, "seq": seq, "at": at, "time": time, "what": what}
        number = self.insert("texts", **place, cut=len(text) > SEARCHED, decision=decision)
        self.insert("passages", rowid=number, text=scrub(text[:SEARCHED]))

    def link_answers(self, session: int, turn: int, answers: Iterable[int]) -> None:
        """Note which turn was judged with these answers."""
        query = "UPDATE asks SET turn = ? WHERE session = ? AND answered = ?"
        self._connection.executemany(query, [(turn, session, seq) for seq in answers])

    def update(self, table: str, row: int, **values: Any) -> None:
        """Write some columns of a row anew."""
        settings = ", ".join(f"{name} = ?" for name in values)
        self._connection.execute(f"UPDATE {table} SET {settings} WHERE id = ?", (*values.values(), row))  # noqa: S608

    def clear_session(self, session: int) -> None:
        """Take out everything of a session but its own row.

        A full-text index gives nothing back without the texts: their words stay until the index is made anew, and lead
        to nothing.
        """
        run = self._connection.execute
        run("DELETE FROM decision_rules WHERE decision IN (SELECT id FROM decisions WHERE session = ?)", (session,))
        if not self._full_text:
            run("DELETE FROM passages WHERE rowid IN (SELECT id FROM texts WHERE session = ?)", (session,))
        for table in OF_SESSION:
            run(f"DELETE FROM {table} WHERE session = ?", (session,))  # noqa: S608

    def drop_session(self, session: int) -> None:
        """Take out a session that the log does not hold any more."""
        self.clear_session(session)
        self._connection.execute("DELETE FROM sessions WHERE id = ?", (session,))
