"""`foregate policy set`, `apply` and `undo`: changing a policy file, and taking that back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli.commands import options
from foregate.cli.commands.options import take
from foregate.cli.commands.policy import app
from foregate.schemas.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

Yes = Annotated[bool, take("--yes", "Change it without asking.")]
DryRun = Annotated[bool, take("--dry-run", "Show what it would do, change nothing.")]
Last = Annotated[int, take("--last", "Judge so many of the newest sessions again; 0 is none.", "NUMBER", min=0)]
_SESSIONS = 100


@app.command("set")
def set_key(
    key: Annotated[str, typer.Argument(metavar="KEY", help="As in `narration.min_chars` or `rules.list.ID.then`.")],
    value: Annotated[str | None, typer.Argument(metavar="VALUE", help="A value as it stands in YAML.")] = None,
    unset: Annotated[bool, take("--unset", "Take the key out of your file, so that the default holds.")] = False,
    policy: options.PolicyFile = None,
    last: Last = _SESSIONS,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Change one key of your policy file; comments and order stay, and the former version is kept.

    What recorded sessions would have been under the changed file is shown first.
    """
    from foregate.cli.commands.policy_change import PolicyEdit
    from foregate.policy.source.key_names import build_change

    if (value is None) != unset:
        raise UsageError("give a VALUE, or --unset to take the key out of your file; not both")
    file = require_own_file(policy)
    change = PolicyEdit(file, [build_change(key, value, file)])
    change.carry_out(last=last, yes=yes, dry_run=dry_run, as_json=as_json)


@app.command("apply")
def apply(
    suggestion: Annotated[str, typer.Argument(metavar="SUGGESTION", help="Its id, or a file with a part of a policy.")],
    policy: options.PolicyFile = None,
    last: Last = _SESSIONS,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Lay a suggestion over your policy file, key by key; comments and order stay, and the former version is kept."""
    from foregate.assembly.home import Home
    from foregate.cli.commands.policy_change import PolicyEdit
    from foregate.policy.source.suggestion import find_suggestion, read_suggestion

    found = read_suggestion(find_suggestion(suggestion, Home(Home.path()).suggestions))
    change = PolicyEdit(require_own_file(policy), found.changes, found.words)
    change.carry_out(last=last, yes=yes, dry_run=dry_run, as_json=as_json)


@app.command("undo")
def undo(
    policy: options.PolicyFile = None, yes: Yes = False, dry_run: DryRun = False, as_json: options.AsJson = False
) -> None:
    """Bring back what your policy file held before `policy set` or `policy apply` changed it last."""
    from foregate.cli.commands.policy_change import undo_change

    undo_change(require_own_file(policy), yes=yes, dry_run=dry_run, as_json=as_json)


def require_own_file(named: str | None) -> Path:
    """Return the policy file that a person may change; raise UsageError where none is named, or it is a shipped one."""
    from foregate.assembly.choices import find_policy_file
    from foregate.policy.source.load import SHIPPED

    file = find_policy_file(named, os.environ)
    make = "`foregate policy new FILE` makes one"
    if file is None:
        raise UsageError(f"no policy file is in force; name yours with --policy or FOREGATE_POLICY ({make})")
    if (named or os.environ.get("FOREGATE_POLICY")) in SHIPPED:
        raise UsageError(f"`{named}` comes with Foregate and is not yours to change; {make} to begin with it")
    if not file.exists():
        raise UsageError(f"there is no policy file `{file}`; {make}")
    return file
