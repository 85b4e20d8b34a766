"""The lists of `foregate audit` and of the console: sessions, decisions, and the places where words stand."""

from __future__ import annotations

from foregate.views.terminal.layout import BAD, CARE, GOOD
from foregate.views.terminal.listing import Column, Listing, Row

_VERDICT = {"allow": GOOD, "ask": CARE, "hold": CARE, "deny": BAD}


def _describe_session(row: Row) -> str:
    signed = row.get("signed") or {}
    mark = f"(signed off by {signed['by']['user']}) " if "by" in signed else ""
    if signed.get("void"):
        mark = "(sign-off void: it has grown) "
    return mark + (row["asked"] or (f"follows {row['follows']}" if row["follows"] else ""))


def _describe_decision(row: Row) -> str:
    shadow = " [shadow]" if row["mode"] == "shadow" else ""
    what = f"{row['tool']} {row['target']}".strip()
    return ": ".join(part for part in (f"{row['code']}{shadow}", what, row["summary"]) if part)


SESSIONS = Listing(
    "session",
    (
        Column("session", head="SESSION"),
        Column("events", "number", head="EVENTS"),
        Column("state", head="STATE"),
        Column("last", "time", head="LAST", is_wide=True),
        Column("", "number", head="STOPPED", show=lambda row: str(row["held"] + row["denied"]), is_wide=True),
        Column("asked", head="ASKED", show=_describe_session),
        Column("started", "time"),
        Column("ended", "time"),
        Column("workspace", page="{}"),
        Column("model", page="{}"),
        Column("by", page="by {}"),
        Column("tasks", "number"),
        Column("allowed", "number"),
        Column("asked_about", "number"),
        Column("held", "number"),
        Column("denied", "number"),
        Column("follows"),
        Column("problem", page="{}"),
    ),
)
DECISIONS = Listing(
    "decision",
    (
        Column("", head="DECISION", show=lambda row: f"{row['session']}/{row['address']}", style=lambda row: "dim"),
        Column("session"),
        Column("seq", "number"),
        Column("time", "time", head="TIME", is_wide=True),
        Column("gate"),
        Column("code"),
        Column("standing", head="SAID", style=lambda row: _VERDICT.get(row["standing"], "")),
        Column("mode"),
        Column("severity"),
        Column("tool"),
        Column("target"),
        Column("call"),
        Column("rules", "texts"),
        Column("key"),
        Column("policy"),
        Column("approver", page="answered by {}"),
        Column("origin"),
        Column("risk", "number", page="risk {}"),
        Column("summary", head="OF WHAT", show=_describe_decision),
    ),
)
PASSAGES = Listing(
    "place",
    (
        Column("session", head="SESSION"),
        Column("seq", "number", head="EVENT"),
        Column("time", "time"),
        Column("what", head="WHERE"),
        Column("excerpt", head="WORDS"),
    ),
)
