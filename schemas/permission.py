"""Permissions that last: what a person lets calls do from now on, in this workspace, without being asked again."""

from __future__ import annotations

from foregate.schemas.noun import Noun
from foregate.schemas.sandbox import Access


class PermittedValue(Noun, frozen=True):
    """A value of an argument that a permission is bound to; with `at_most` a number, and none above it.

    With `any` every value is, but one that only text from outside said.
    """

    path: str
    key: str
    text: str
    at_most: bool = False
    any: bool = False


class Permission(Noun, frozen=True):
    """What is permitted, exactly as it was shown, and who said so.

    A call is covered where it is by this `tool`, with this `effect` and `definition` (the hash of the tool's own), and
    everything else here fits: the words of its command (`argv` or `shell`), the `folder` it runs in and the `scripts`
    it runs by name, what it wants of the world outside (`access`, or less), the `targets` it changes (`kind:id`, or
    fewer), and its `values`. With `digest` it is this very call. `tier` is what must hold its program at least.
    `reasons` are what would ask otherwise, as `gate/code`, behind it for a rule the hash of that rule. `section` is a
    hash over what the policy says of the tool's calls.

    Wider ones have `leading` in place of a command's words, those it begins with, further ones being plain (none where
    they are `closed`); and `patterns`, globs of files that may be created and edited. With `applied` it is about what
    its command has changed in a sandbox, the `targets`, and not about running it.

    `words` say all this to a person. `by` is the user who said yes, `at` when, as UTC, to event
    `seq` of `session`, and `until` when it ends, "" for never.

    Example: `Permission("p1f0c2a9e", "git_push", "send", ("approval/approval_required",), "5d...", digest="9c...")`.
    """

    id: str
    tool: str
    effect: str
    reasons: tuple[str, ...]
    definition: str
    digest: str = ""
    argv: tuple[str, ...] = ()
    shell: str = ""
    folder: str = ""
    scripts: str = ""
    access: tuple[Access, ...] = ()
    tier: str = ""
    targets: tuple[str, ...] = ()
    values: tuple[PermittedValue, ...] = ()
    leading: tuple[str, ...] = ()
    closed: bool = False
    patterns: tuple[str, ...] = ()
    applied: bool = False
    section: str = ""
    words: str = ""
    by: str = ""
    at: str = ""
    session: str = ""
    seq: int = 0
    until: str = ""
