"""What is asked of the index, as conditions: texts that come from outside are only ever values of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from foregate.schemas.errors import UsageError
from foregate.schemas.judgement import Standing
from foregate.schemas.strict_json import scrub
from foregate.telemetry.index.rows import SEVERITIES, STANDINGS
from foregate.telemetry.index.texts import split_phrase

Names = Sequence[str]


class DecisionFilter(Struct, frozen=True):
    """Which decisions. Of several values of one field any will do; an empty field lets all through.

    `tool`, `target`, `rule`, `key`, `approver`, `workspace`, `model` and `who` are patterns with `*` and `?`; `policy`
    is the beginning of a hash; `risk` the least and the most, in thousandths; `text` are phrases that all stand in what
    the decision says or is about. `passed` takes in rows that only passed.
    """

    sessions: Names = ()
    since: datetime | None = None
    until: datetime | None = None
    gate: Names = ()
    code: Names = ()
    standing: Names = ()
    severity: Names = ()
    tool: Names = ()
    target: Names = ()
    rule: Names = ()
    key: Names = ()
    policy: Names = ()
    approver: Names = ()
    origin: Names = ()
    risk: tuple[int, int] | None = None
    text: Names = ()
    workspace: Names = ()
    model: Names = ()
    who: Names = ()
    passed: bool = False

    @property
    def has_own(self) -> bool:
        """Whether it says more than of which sessions and when."""
        own = (self.gate, self.code, self.standing, self.severity, self.tool, self.target, self.rule, self.key)
        return any((*own, self.policy, self.approver, self.origin, self.text)) or self.risk is not None


class SessionFilter(Struct, frozen=True):
    """Which sessions. Of several values of one field any will do; an empty field lets all through.

    `since` and `until` are moments: sessions with an event between them. `workspace`, `model` and `who` (who ran it)
    are patterns with `*` and `?`; `text` are phrases that all stand in one text of the session; `waiting` is for those
    that wait for a person, and `decisions` for those that hold a decision which fits.
    """

    sessions: Names = ()
    state: Names = ()
    since: datetime | None = None
    until: datetime | None = None
    workspace: Names = ()
    model: Names = ()
    who: Names = ()
    text: Names = ()
    waiting: bool = False
    decisions: DecisionFilter | None = None


class Condition(NamedTuple):
    """A condition in SQL without any text from outside, and the values that stand for its question marks."""

    sql: str
    values: tuple[object, ...] = ()


def join_conditions(conditions: Sequence[Condition]) -> Condition:
    """Return the condition that all hold."""
    values = tuple(value for one in conditions for value in one.values)
    return Condition(" AND ".join(one.sql for one in conditions) or "1", values)


def build_session_conditions(
    wanted: SessionFilter, asked: Sequence[str], *, full_text: bool, through: str = "decisions_by_time"
) -> list[Condition]:
    """Return the conditions on rows of `sessions`; `asked` are the names of those that wait for a person, and decisions
    are gone through by the index `through`."""
    found = []
    if wanted.sessions:
        found.append(_is_one_of("name", wanted.sessions))
    if wanted.waiting:
        found.append(_is_one_of("name", asked))
    if wanted.state:
        found.append(_is_one_of("state", wanted.state))
    if wanted.since is not None:
        found.append(Condition("last_at >= ?", (count_milliseconds(wanted.since),)))
    if wanted.until is not None:
        found.append(Condition("first_at <= ?", (count_milliseconds(wanted.until),)))
    for column, patterns in (("workspace", wanted.workspace), ("model", wanted.model), ("ran_by", wanted.who)):
        if patterns:
            found.append(_match_any(column, patterns))
    if wanted.text:
        inner = match_phrases(wanted.text, full_text=full_text)
        query = f"id IN (SELECT texts.session FROM passages JOIN texts ON texts.id = passages.rowid WHERE {inner.sql})"  # noqa: S608
        found.append(Condition(query, inner.values))
    if wanted.decisions is not None:
        inner = join_conditions(build_decision_conditions(wanted.decisions, full_text=full_text))
        query = f"id IN (SELECT session FROM decisions INDEXED BY {through} WHERE {inner.sql})"  # noqa: S608
        found.append(Condition(query, inner.values))
    return found


def build_decision_conditions(wanted: DecisionFilter, *, full_text: bool) -> list[Condition]:
    """Return the conditions on rows of `decisions`."""
    found = build_place_conditions(wanted)
    named = ("gate", wanted.gate), ("code", wanted.code), ("origin", wanted.origin)
    found += [_is_word(column, _is_one_of("text", names)) for column, names in named if names]
    globbed = ("tool", wanted.tool), ("target", wanted.target), ("key", wanted.key), ("approver", wanted.approver)
    found += [match_words(column, patterns) for column, patterns in globbed if patterns]
    if wanted.policy:
        found.append(match_words("policy", [f"{escape_pattern(one)}*" for one in wanted.policy]))
    if wanted.standing:
        found.append(_is_one_of("standing", [STANDINGS.index(Standing(one)) for one in wanted.standing]))
    if wanted.severity:
        found.append(
            _is_one_of("severity", [number for number, one in enumerate(SEVERITIES) if one in wanted.severity])
        )
    if wanted.risk is not None:
        found.append(Condition("risk BETWEEN ? AND ?", wanted.risk))
    if wanted.rule:
        inner = match_words("rule", wanted.rule)
        found.append(Condition(f"id IN (SELECT decision FROM decision_rules WHERE {inner.sql})", inner.values))  # noqa: S608
    if wanted.text:
        inner = match_phrases(wanted.text, full_text=full_text)
        query = "SELECT texts.decision FROM passages JOIN texts ON texts.id = passages.rowid WHERE"
        found.append(Condition(f"id IN ({query} texts.decision IS NOT NULL AND {inner.sql})", inner.values))
    if not wanted.passed:
        found.append(Condition("passed = 0"))
    return found


def build_place_conditions(wanted: DecisionFilter) -> list[Condition]:
    """Return the conditions on rows that have a session and a time (`at`), whatever else they are."""
    found = build_time_conditions("at", wanted.since, wanted.until)
    inner = list(_list_own_conditions(wanted))
    if inner:
        of_sessions = join_conditions(inner)
        query = f"session IN (SELECT id FROM sessions WHERE {of_sessions.sql})"  # noqa: S608
        found.append(Condition(query, of_sessions.values))
    return found


def build_time_conditions(column: str, since: datetime | None, until: datetime | None) -> list[Condition]:
    """Return the conditions that a column of times lies between two moments."""
    found = []
    if since is not None:
        found.append(Condition(f"{column} >= ?", (count_milliseconds(since),)))
    if until is not None:
        found.append(Condition(f"{column} <= ?", (count_milliseconds(until),)))
    return found


def _list_own_conditions(wanted: DecisionFilter) -> Iterator[Condition]:
    if wanted.sessions:
        yield _is_one_of("name", wanted.sessions)
    for column, patterns in (("workspace", wanted.workspace), ("model", wanted.model), ("ran_by", wanted.who)):
        if patterns:
            yield _match_any(column, patterns)


def match_words(column: str, patterns: Names) -> Condition:
    """Return the condition that a column of numbers stands for one of the texts, or for one that fits as a pattern."""
    return _is_word(column, _match_any("text", patterns))


def match_phrases(phrases: Names, *, full_text: bool) -> Condition:
    """Return the condition on `passages` that all phrases stand in a text, their last words whole unless they end in
    `*`; raise UsageError for a phrase without a word."""
    for phrase in phrases:
        if not split_phrase(phrase):
            raise UsageError(f"`{phrase[:60]}` has no word to search for; write words or numbers")
    if full_text:
        quoted = [
            f'"{scrub(phrase).rstrip("*").replace(chr(34), chr(34) * 2)}"' + "*" * phrase.endswith("*")
            for phrase in phrases
        ]
        return Condition("passages MATCH ?", (" AND ".join(quoted).replace("\0", " "),))
    patterns = [f"%{_escape_like(scrub(phrase).rstrip('*'))}%" for phrase in phrases]
    return join_conditions([Condition("passages.text LIKE ? ESCAPE '\\'", (pattern,)) for pattern in patterns])


def escape_pattern(text: str) -> str:
    """Return the pattern that only `text` itself fits."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)


def count_milliseconds(moment: datetime) -> int:
    """Return a moment as the index has it."""
    return round(moment.timestamp() * 1000)


def _is_one_of(column: str, values: Sequence[object]) -> Condition:
    return Condition(f"{column} IN ({', '.join('?' * len(values))})", tuple(map(_clean, values)))


def _match_any(column: str, patterns: Names) -> Condition:
    """Return the condition that a column is one of the texts, or fits one of them as a pattern."""
    each = f"({column} = ? OR {column} GLOB ?)"
    values = tuple(value for pattern in patterns for value in (_clean(pattern), _clean(pattern)))
    return Condition(f"({' OR '.join([each] * len(patterns))})", values)


def _is_word(column: str, inner: Condition) -> Condition:
    return Condition(f"{column} IN (SELECT id FROM words WHERE {inner.sql})", inner.values)  # noqa: S608


def _clean(value: object) -> object:
    return scrub(value) if isinstance(value, str) else value


def _escape_like(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
