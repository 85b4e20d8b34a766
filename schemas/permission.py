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

    It covers a call of this `tool` with this `effect` and `definition` (the hash of the tool's own), if the rest fits.
    For a command these are its words (`argv` or `shell`), `folder`, `scripts` by name, and its `access` or less. For
    any call they are the `targets` it changes (`kind:id`) or fewer, and its `values`. With `digest` it covers this very
    call. `tier` is the least that must hold its program. `reasons` are what would ask otherwise, as `gate/code`, with a
    rule's hash. `section` is a hash over what the policy says of the tool's calls.

    A wider one has `leading`, the words a command begins with (plain words follow, unless `closed`), or `patterns`,
    globs of files to create and edit. With `applied` it is about what a command changed in a sandbox.

    `words` say this to a person. `by` said yes at `at` (UTC) to event `seq` of `session`; `until` is its end, "" for
    never.

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
