"""Writes rows into the index: texts that stand in many rows once, and the words of texts that are searched."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from foregate.schemas.strict_json import scrub
from foregate.telemetry.index.tables import OF_SESSION, has_full_text

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

    def answer_ask(self, ask: int, **values: Any) -> None:
        """Note the answer in the row of a question."""
        settings = ", ".join(f"{name} = ?" for name in values)
        self._connection.execute(f"UPDATE asks SET {settings} WHERE id = ?", (*values.values(), ask))  # noqa: S608

    def save_session(self, session: int, **values: Any) -> None:
        """Write what is known of a session anew."""
        settings = ", ".join(f"{name} = ?" for name in values)
        self._connection.execute(f"UPDATE sessions SET {settings} WHERE id = ?", (*values.values(), session))  # noqa: S608

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
