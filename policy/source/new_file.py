"""The text of a new policy file: the line by which an editor finds the schema, and what to begin with."""

from __future__ import annotations

from pathlib import Path

from foregate.policy.source.load import SHIPPED, resolve_policy_file
from foregate.policy.source.shipped import FOLDER
from foregate.schemas.errors import UsageError

MARK = "# yaml-language-server: $schema="
"""What an editor's YAML server looks for in a comment; the address of the schema follows."""
_BEGIN = """\
# Your policy. It lies over Foregate's default one and needs only the keys it changes.
# `foregate policy explain KEY` says what a key does, and `foregate policy check FILE` what is wrong here.
#
# approval:
#   mode: each            # every change asks, not only what is external or cannot be undone
# http:
#   hosts: [api.example.org]
"""


def find_schema() -> Path:
    """Return the file of the schema that comes with Foregate."""
    return FOLDER / "schema.json"


def format_new_file(like: str = "") -> str:
    """Return the text of a new policy file, with what a shipped policy says where one is named.

    Raises UsageError for a policy that is not shipped.
    """
    if like and like not in SHIPPED:
        names = ", ".join(f"`{name}`" for name in SHIPPED)
        raise UsageError(f"`{like[:60]}` does not come with Foregate; begin with one of {names}")
    text = resolve_policy_file(like).read_text("utf-8") if like else _BEGIN
    return f"{MARK}{find_schema().resolve().as_uri()}\n{text}"
