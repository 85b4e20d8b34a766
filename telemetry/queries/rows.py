"""What the index answers with: a session, a decision, a place where a text stands."""

from __future__ import annotations

from typing import get_args

from msgspec import Struct, structs, to_builtins

from foregate.schemas import strict_json
from foregate.schemas.judgement import Severity, Standing
from foregate.schemas.strict_json import Json

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
STANDINGS = tuple(Standing)
"""Standings and severities as the index has them, by their numbers."""


class ListRow(Struct, frozen=True):
    """A row of a list."""

    def to_json(self) -> dict[str, Json]:
        """Return the row as JSON values, every column present."""
        found: dict[str, Json] = to_builtins(self)
        return found


class SessionFacts(Struct):
    """What the index keeps of a session, a column each; see SessionRow. Times are milliseconds since 1970."""

    state: str = "open"
    asked: str = ""
    started: str = ""
    ended: str = ""
    last: str = ""
    first_at: int = 0
    last_at: int = 0
    workspace: str = ""
    model: str = ""
    by: str = ""
    follows: str = ""
    tasks: int = 0
    allowed: int = 0
    asked_about: int = 0
    held: int = 0
    denied: int = 0


class SessionRow(ListRow, frozen=True):
    """A session as a list shows it.

    `state` is how its last task stands, `asked` the first words of the person, `ended` when that task or the session
    did ("" while it is open or waits), `last` the time of the last event, `by` who ran it. Four fields count calls:
    those allowed, those a person was asked about, those held and those denied. `problem` says what of the session
    cannot be read, "" for nothing; `follows` is the session that this one follows, "" for none; `question` is the
    event that asks a person now, 0 for none.
    """

    session: str
    events: int
    tasks: int
    state: str
    asked: str
    started: str
    workspace: str
    model: str
    ended: str = ""
    last: str = ""
    by: str = ""
    allowed: int = 0
    asked_about: int = 0
    held: int = 0
    denied: int = 0
    problem: str = ""
    follows: str = ""
    question: int = 0


class DecisionRow(ListRow, frozen=True):
    """A gate's ruling on a call, or on a turn where it only let its calls pass.

    `standing` is what the gate itself said, `call` the id of the call, `key` the policy key that decided, `policy` the
    hash of the policy in force, `approver` the person whose answer the gate had, `origin` who said the target first,
    `risk` the call's score in thousandths, None where it cannot be computed. `id` is its place in the index, from which
    a list goes on.
    """

    session: str
    seq: int
    time: str
    gate: str
    code: str
    standing: str
    mode: str
    severity: str
    tool: str
    target: str
    call: str
    rules: tuple[str, ...]
    key: str
    policy: str
    approver: str
    origin: str
    risk: int | None
    summary: str
    id: int = 0

    @property
    def address(self) -> str:
        """The decision's name within its session, as `audit explain` takes it."""
        return f"{self.seq}.{self.gate}"

    def to_json(self) -> dict[str, Json]:
        """Return the row as JSON values, every column present."""
        return {"address": self.address, **strict_json.dump(self, exclude=frozenset({"id"}))}


class FoundText(Struct, frozen=True):
    """A text of an event in which everything stands that was searched for; `what` says whose or which text it is."""

    session: str
    seq: int
    time: str
    what: str

    def to_json(self, excerpt: str) -> dict[str, Json]:
        """Return the passage as JSON values, with the words around what was found."""
        return {**structs.asdict(self), "excerpt": excerpt}
