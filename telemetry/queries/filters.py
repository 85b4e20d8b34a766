"""What is asked of the index, as conditions: texts that come from outside are only ever values of a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from foregate.schemas.errors import UsageError
from foregate.schemas.judgement import Standing
from foregate.schemas.strict_json import scrub
from foregate.telemetry.queries.rows import SEVERITIES, STANDINGS
from foregate.telemetry.queries.texts import split_phrase

Names = Sequence[str]


class PlaceFilter(Struct, frozen=True):
    """Which sessions, and when. Of several values of one field any will do; an empty field lets all through.

    `since` and `until` are moments; `workspace`, `model` and `who` (who ran it) are patterns with `*` and `?`.
    """

    sessions: Names = ()
    since: datetime | None = None
    until: datetime | None = None
    workspace: Names = ()
    model: Names = ()
    who: Names = ()


class DecisionFilter(PlaceFilter, frozen=True):
    """Which decisions. `tool`, `target`, `rule`, `key` and `approver` are patterns with `*` and `?`.

    `policy` is the beginning of a hash; `risk` the least and the most, in thousandths; `text` are phrases that all
    stand in what the decision says or is about. `passed` takes in rows that only passed.
    """

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
    passed: bool = False

    @property
    def has_own(self) -> bool:
        """Whether it says more than which sessions and when."""
        own = (self.gate, self.code, self.standing, self.severity, self.tool, self.target, self.rule, self.key)
        return any((*own, self.policy, self.approver, self.origin, self.text)) or self.risk is not None


class SessionFilter(PlaceFilter, frozen=True):
    """Which sessions: those with an event between `since` and `until`.

    `text` are phrases that all stand in one text of the session; `waiting` is for those that wait for a person, and
    `decisions` for those that hold a decision which fits.
    """

    state: Names = ()
    text: Names = ()
    waiting: bool = False
    decisions: DecisionFilter | None = None


class SqlCondition(NamedTuple):
    """A condition in SQL without any text from outside, and the values that stand for its question marks."""

    sql: str
    values: tuple[object, ...] = ()


def join_conditions(conditions: Iterable[SqlCondition]) -> SqlCondition:
    """Return the condition that all hold."""
    found = list(conditions)
    values = tuple(value for one in found for value in one.values)
    return SqlCondition(" AND ".join(one.sql for one in found) or "1", values)


def list_session_conditions(wanted: PlaceFilter) -> Iterator[SqlCondition]:
    """Yield the conditions on rows of `sessions`: which ones, with an event in that time."""
    yield from _list_named(wanted)
    yield from list_time_conditions(wanted, since="last_at", until="first_at")


def build_session_condition(
    wanted: SessionFilter, asked: Names, *, full_text: bool, through: str = "decisions_by_time"
) -> SqlCondition:
    """Return the condition on rows of `sessions`; `asked` are the names of those that wait for a person, and decisions
    are gone through by the index `through`."""
    found = list(list_session_conditions(wanted))
    if wanted.waiting:
        found.append(_is_one_of("name", asked))
    if wanted.state:
        found.append(_is_one_of("state", wanted.state))
    if wanted.text:
        found.append(_has_text("session", wanted.text, full_text=full_text))
    if wanted.decisions is not None:
        inner = build_decision_condition(wanted.decisions, full_text=full_text)
        query = f"id IN (SELECT session FROM decisions INDEXED BY {through} WHERE {inner.sql})"  # noqa: S608
        found.append(SqlCondition(query, inner.values))
    return join_conditions(found)


def build_decision_condition(wanted: DecisionFilter, *, full_text: bool) -> SqlCondition:
    """Return the condition on rows of `decisions`."""
    found = list(list_place_conditions(wanted))
    named = ("gate", wanted.gate), ("code", wanted.code), ("origin", wanted.origin)
    found += [_is_word(column, _is_one_of("text", names)) for column, names in named if names]
    globbed = ("tool", wanted.tool), ("target", wanted.target), ("key", wanted.key), ("approver", wanted.approver)
    found += [match_words(column, patterns) for column, patterns in globbed if patterns]
    if wanted.policy:
        found.append(match_words("policy", [f"{escape_pattern(one)}*" for one in wanted.policy]))
    if wanted.standing:
        found.append(_is_one_of("standing", [STANDINGS.index(Standing(one)) for one in wanted.standing]))
    if wanted.severity:
        numbers = [number for number, one in enumerate(SEVERITIES) if one in wanted.severity]
        found.append(_is_one_of("severity", numbers))
    if wanted.risk is not None:
        found.append(SqlCondition("risk BETWEEN ? AND ?", wanted.risk))
    if wanted.rule:
        inner = match_words("rule", wanted.rule)
        found.append(SqlCondition(f"id IN (SELECT decision FROM decision_rules WHERE {inner.sql})", inner.values))  # noqa: S608
    if wanted.text:
        found.append(_has_text("decision", wanted.text, full_text=full_text))
    if not wanted.passed:
        found.append(SqlCondition("passed = 0"))
    return join_conditions(found)


def list_place_conditions(wanted: PlaceFilter) -> Iterator[SqlCondition]:
    """Yield the conditions on rows that have a session and a time (`at`), whatever else they are."""
    yield from list_time_conditions(wanted)
    of_sessions = join_conditions(_list_named(wanted))
    if of_sessions.values:
        query = f"session IN (SELECT id FROM sessions WHERE {of_sessions.sql})"  # noqa: S608
        yield SqlCondition(query, of_sessions.values)


def list_time_conditions(wanted: PlaceFilter, since: str = "at", until: str = "at") -> Iterator[SqlCondition]:
    """Yield the conditions that columns of times lie between two moments."""
    if wanted.since is not None:
        yield SqlCondition(f"{since} >= ?", (_count_milliseconds(wanted.since),))
    if wanted.until is not None:
        yield SqlCondition(f"{until} <= ?", (_count_milliseconds(wanted.until),))


def _list_named(wanted: PlaceFilter) -> Iterator[SqlCondition]:
    """Yield the conditions on rows of `sessions` that say which ones."""
    if wanted.sessions:
        yield _is_one_of("name", wanted.sessions)
    for column, patterns in (("workspace", wanted.workspace), ("model", wanted.model), ("by", wanted.who)):
        if patterns:
            yield _match_any(column, patterns)


def match_words(column: str, patterns: Names) -> SqlCondition:
    """Return the condition that a column of numbers stands for one of the texts, or for one that fits as a pattern."""
    return _is_word(column, _match_any("text", patterns))


def match_phrases(phrases: Names, *, full_text: bool) -> SqlCondition:
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
        return SqlCondition("passages MATCH ?", (" AND ".join(quoted).replace("\0", " "),))
    patterns = [f"%{_escape_like(scrub(phrase).rstrip('*'))}%" for phrase in phrases]
    return join_conditions(SqlCondition("passages.text LIKE ? ESCAPE '\\'", (pattern,)) for pattern in patterns)


def escape_pattern(text: str) -> str:
    """Return the pattern that only `text` itself fits."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)


def _count_milliseconds(moment: datetime) -> int:
    """Return a moment as the index has it."""
    return round(moment.timestamp() * 1000)


def _has_text(column: str, phrases: Names, *, full_text: bool) -> SqlCondition:
    """Return the condition that all phrases stand in one text of what a row is; `column` says of what in `texts`."""
    inner = match_phrases(phrases, full_text=full_text)
    found = f"SELECT texts.{column} FROM passages JOIN texts ON texts.id = passages.rowid"  # noqa: S608
    return SqlCondition(f"id IN ({found} WHERE texts.{column} IS NOT NULL AND {inner.sql})", inner.values)


def _is_one_of(column: str, values: Sequence[object]) -> SqlCondition:
    return SqlCondition(f"{column} IN ({', '.join('?' * len(values))})", tuple(map(_clean, values)))


def _match_any(column: str, patterns: Names) -> SqlCondition:
    """Return the condition that a column is one of the texts, or fits one of them as a pattern."""
    each = f"({column} = ? OR {column} GLOB ?)"
    values = tuple(value for pattern in patterns for value in (_clean(pattern), _clean(pattern)))
    return SqlCondition(f"({' OR '.join([each] * len(patterns))})", values)


def _is_word(column: str, inner: SqlCondition) -> SqlCondition:
    return SqlCondition(f"{column} IN (SELECT id FROM words WHERE {inner.sql})", inner.values)  # noqa: S608


def _clean(value: object) -> object:
    return scrub(value) if isinstance(value, str) else value


def _escape_like(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
