"""Leave a person gave."""

from __future__ import annotations

from msgspec import Struct


class Grant(Struct, frozen=True, forbid_unknown_fields=True):
    """Permission that a person gave, exactly as shown: for a gate's code or a rule, an effect and a resource pattern.

    `digest` binds the grant to one call instead of a pattern; `until` is `session`, `task` or `once`.
    """

    gate: str
    code: str
    effect: str
    kind: str = ""
    pattern: str = ""
    digest: str = ""
    until: str = "session"
    seq: int = 0
