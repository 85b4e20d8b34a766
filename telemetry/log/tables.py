"""The tables of the log's file: those of each version, and how a file of an older one is brought up."""

from __future__ import annotations

import sqlite3

APPLICATION = 0x46475445
"""SQLite's application id of our files: "FGTE"."""

_LEASES = """CREATE TABLE leases (
  number INTEGER PRIMARY KEY,
  session TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  pid INTEGER NOT NULL,
  started TEXT NOT NULL,
  boot TEXT NOT NULL,
  place TEXT NOT NULL,
  fence INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  hash TEXT NOT NULL
) STRICT"""
_EVENTS = """CREATE TABLE events (
  session TEXT NOT NULL,
  seq INTEGER NOT NULL,
  text TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT"""
KIND = "CASE WHEN json_valid(text) THEN json_extract(text, '$.kind') END"
"""The kind of an event, from the text that is hashed, so that no column can tell another story than the chain."""
_KEY = "  PRIMARY KEY"
_WITH_KIND = (
    _EVENTS.replace(_KEY, f"  kind TEXT GENERATED ALWAYS AS ({KIND}) VIRTUAL,\n{_KEY}"),
    "CREATE INDEX events_by_kind ON events (session, kind, seq)",
)


def _build_condition(row: str, raised: bool) -> str:
    """Return the condition for an event that asks a person, or for one that ends what was asked.

    Searching the text comes first, since that is much cheaper than reading it.
    """
    kinds = ("need_raised",) if raised else ("need_answered", "task_ended")
    found = " OR ".join(f"instr({row}.text, '\"{kind}\"')" for kind in kinds)
    named = ", ".join(f"'{kind}'" for kind in kinds)
    read = f"json_extract({row}.text, '$.kind') IN ({named})"
    if raised:
        read += f" AND json_extract({row}.text, '$.body.need.who') = 'person'"
    return f"({found}) AND CASE WHEN json_valid({row}.text) THEN {read} END"


_QUESTIONS = """CREATE TABLE questions (
  session TEXT PRIMARY KEY,
  seq INTEGER NOT NULL,
  reply TEXT
) STRICT"""
"""Where a session may wait for a person, and the answer that waits to be taken into its log.

It is kept with the events, in their transaction and by their text. It points at more than is open, never at less: what
is open, the events say.
"""
_TRIGGERS = (
    f"""CREATE TRIGGER question_raised AFTER INSERT ON events WHEN {_build_condition("NEW", raised=True)} BEGIN
  INSERT INTO questions (session, seq) VALUES (NEW.session, NEW.seq)
  ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, reply = NULL;
END""",  # noqa: S608
    f"""CREATE TRIGGER question_ended AFTER INSERT ON events WHEN {_build_condition("NEW", raised=False)} BEGIN
  DELETE FROM questions WHERE session = NEW.session;
END""",  # noqa: S608
)
"""What kept the questions of a file up to version 6: they read each event, which took a tenth of a turn."""
NOTE_RAISED = f"""INSERT INTO questions (session, seq) SELECT session, seq FROM events
  WHERE session = ? AND seq = ? AND {_build_condition("events", raised=True)}
  ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, reply = NULL"""  # noqa: S608
NOTE_ENDED = f"""DELETE FROM questions WHERE session IN (SELECT session FROM events
  WHERE session = ? AND seq = ? AND {_build_condition("events", raised=False)})"""  # noqa: S608
"""What keeps them, for each event that may ask a person or end what was asked."""
_FILL = (
    f"""INSERT INTO questions (session, seq) SELECT session, max(seq) FROM events
  WHERE {_build_condition("events", raised=True)} GROUP BY session""",  # noqa: S608
    f"""DELETE FROM questions WHERE EXISTS (SELECT 1 FROM events WHERE events.session = questions.session
  AND events.seq > questions.seq AND {_build_condition("events", raised=False)})""",  # noqa: S608
)
_PARTS = (
    """CREATE TABLE parts (
  hash TEXT PRIMARY KEY,
  text TEXT NOT NULL
) STRICT""",
    """CREATE TABLE cuts (
  session TEXT NOT NULL,
  seq INTEGER NOT NULL,
  place INTEGER NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (session, seq, place)
) STRICT, WITHOUT ROWID""",
    "CREATE INDEX cuts_by_part ON cuts (hash)",
)
"""Long values that many sessions have in common, each once, and where they belong in the texts of events."""
_ERASED = """CREATE TABLE erased (
  session TEXT NOT NULL,
  seq INTEGER NOT NULL,
  at TEXT NOT NULL,
  "by" TEXT NOT NULL,
  why TEXT NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID"""
"""The events whose text is gone: who erased it, when and why. Their hashes stay where they are."""
_SNAPSHOTS = """CREATE TABLE snapshots (
  session TEXT PRIMARY KEY,
  seq INTEGER NOT NULL,
  hash TEXT NOT NULL,
  version TEXT NOT NULL,
  data BLOB NOT NULL
) STRICT"""
"""What a session's events fold to as far as one of them. Nothing is lost where a row is deleted."""
_ADDED = {3: (_QUESTIONS, *_TRIGGERS), 5: (*_PARTS, _ERASED, _SNAPSHOTS)}
"""What each version has beyond those before it."""
_BEGINS = {1: (_LEASES, *_WITH_KIND), 2: (_LEASES, _EVENTS)}
TABLES = {
    **_BEGINS,
    3: (*_BEGINS[1], *_ADDED[3]),
    4: (*_BEGINS[2], *_ADDED[3]),
    5: (*_BEGINS[1], *_ADDED[3], *_ADDED[5]),
    6: (*_BEGINS[2], *_ADDED[3], *_ADDED[5]),
    7: (*_BEGINS[2], _QUESTIONS, *_ADDED[5]),
}
"""What a file of each version holds. Events of the first stay as they are: its index only makes each commit dearer."""
UPGRADES = {1: 5, 2: 6, 3: 5, 4: 6}
"""The version that a file of an older one is brought to when it is opened to be written."""
VERSION = max(TABLES)
"""The version new files get, kept in SQLite's user_version."""


def bring_up(connection: sqlite3.Connection, version: int) -> None:
    """Make an empty file a log, and add to an older one what it has not yet, in the transaction under way."""
    wanted = UPGRADES.get(version, version or VERSION)
    for statement in TABLES[wanted]:
        if not version or statement not in TABLES[version]:
            connection.execute(statement)
    for statement in _FILL if version in _BEGINS else ():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute(f"PRAGMA user_version={wanted}")


def is_older(connection: sqlite3.Connection) -> bool:
    """Whether a file is of an older version just now, and lacks what was added since: it was opened only to be read."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return version in UPGRADES
