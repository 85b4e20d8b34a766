"""What is permitted, as lines for a person."""

from __future__ import annotations

from foregate.schemas.permission import Permission

_HELD = ("limited", "full")
"""Tiers in which something holds a command."""


def format_permission_line(one: Permission) -> str:
    """Return a permission as one line of a list."""
    return f"{one.id:<10} {one.at[:10]}  {one.words}"


def format_permission(one: Permission) -> dict[str, str]:
    """Return a permission whole, by the label of each row."""
    is_run = bool(one.argv or one.shell or one.leading)
    held = {"held": f"by a sandbox, `{one.tier}` at least" if one.tier in _HELD else "also where nothing holds it"}
    reached = ", ".join(str(each) if each.name else "any host" for each in one.access) or "nothing outside"
    return {
        "permission": one.id,
        "permits": one.words,
        "by": one.by,
        "at": one.at,
        "until": one.until or "revoked",
        "decision": f"session {one.session}, event {one.seq}" if one.session else "written by hand",
        **({"in": one.folder or "the workspace's root", "reaches": reached} if is_run else {}),
        **(held if is_run and not one.applied else {}),
        "spares": ", ".join(reason.rsplit("/", 1)[0] if reason.count("/") > 1 else reason for reason in one.reasons),
        "tool": f"{one.tool} ({one.effect}), while its definition stays {one.definition[:12]}",
    }
