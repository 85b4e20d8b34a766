"""`foregate policy set`, `apply` and `undo`: changing a policy file, and taking that back."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.assembly.former_policies import FormerPolicies
from foregate.assembly.home import Home
from foregate.cli import options
from foregate.cli.options import take
from foregate.cli.policy import app
from foregate.policy.source.edit import TextChange, change_text
from foregate.policy.source.layers import Layer, build_layer, read_text
from foregate.policy.source.load import check_layer
from foregate.schemas.errors import UsageError
from foregate.schemas.strict_json import as_object
from foregate.views.terminal.exit_codes import USAGE, run_async
from foregate.views.terminal.layout import pluralise

if TYPE_CHECKING:
    from foregate.schemas.strict_json import Json
    from foregate.tuning.piece_judge import Row


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
    from foregate.policy.source.edit import find_suggestion, read_suggestion

    found = read_suggestion(find_suggestion(suggestion, Home(Home.path()).suggestions))
    change = PolicyEdit(require_own_file(policy), found.changes, found.words)
    change.carry_out(last=last, yes=yes, dry_run=dry_run, as_json=as_json)


@app.command("undo")
def undo(
    policy: options.PolicyFile = None, yes: Yes = False, dry_run: DryRun = False, as_json: options.AsJson = False
) -> None:
    """Bring back what your policy file held before `policy set` or `policy apply` changed it last."""

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


class PolicyEdit:
    """Changes of one file. `words` say why, for whoever decides about them.

    Raises PolicyError where the file cannot be read, or cannot be changed so.
    """

    def __init__(self, file: Path, changes: Sequence[TextChange], words: Sequence[str] = ()) -> None:
        self.file, self.words = file, words
        self.before = read_text(file, kind="policy")
        self.after = change_text(self.before, file.name, changes)

    def carry_out(self, *, last: int, yes: bool, dry_run: bool, as_json: bool) -> None:
        """Check the change, show it and what `last` sessions would have been, and write it once somebody says so.

        Exits with 2 where the changed file could not be used. Raises UsageError where nobody can be asked.
        """
        if self.after == self.before:
            _tell(f"{self.file}: nothing to change, it says so already", {"changed": False}, as_json)
            return
        layer = build_layer(str(self.file), self.file.name, self.after)
        if problems := check_layer(layer):
            whole = not check_layer(build_layer(str(self.file), self.file.name, self.before))
            options.print_problems(f"as changed, {problem}" if whole else problem for problem in problems)
            raise typer.Exit(USAGE)
        told: dict[str, Json] = {"file": str(self.file), "diff": "".join(self.list_differences())}
        if not as_json:
            for paragraph in self.words:
                options.print_text(paragraph)
            _print_difference(self.list_differences())
        if last:
            told["what_if"] = self._judge_again(layer, last, as_json)
        if dry_run:
            _tell("nothing was changed (--dry-run)", told | {"changed": False}, as_json)
            return
        if _agree(f"change {self.file}?", yes):
            FormerPolicies(Home.open().policies, self.file).replace(self.before.encode(), self.after.encode())
            said = f"{self.file}: changed; `foregate policy undo` brings the former version back"
            _tell(said, told | {"changed": True}, as_json)

    def list_differences(self) -> Iterator[str]:
        """Yield the lines of a difference between the file and what it would be."""
        return compare_texts(self.before, self.after)

    def _judge_again(self, layer: Layer, last: int, as_json: bool) -> Json:
        """Show what the newest sessions would have been under the changed file; return the summary."""
        from foregate.cli.reports import build_summary_json, format_changes
        from foregate.tuning.rejudging import find_other_versions
        from foregate.tuning.what_if import WhatIf

        with closing(Home.open().open_log()) as log:
            sessions = sorted(run_async(log.sessions()), reverse=True)[:last]
            options.print_problems(find_other_versions(log, sessions))
            now = build_layer(str(self.file), self.file.name, self.before)
            known = {_name_outcome(row) for row in WhatIf(log, now, names_keys=False).find_changes(sessions)}
            judged = WhatIf(log, layer, names_keys=False)
            rows = list(judged.find_changes(sessions))
            new = [row for row in rows if _name_outcome(row) not in known]
            lines = [] if as_json else list(format_changes(new, judged.tally, self.file.name, judged.name_keys))
        if not as_json:
            for line in lines:
                options.print_folded(line)
            if left := len(rows) - len(new):
                typer.echo(f"Not listed: {pluralise(left, 'call')} that the unchanged file turns, too.")
        return {**as_object(build_summary_json(judged.tally, self.file.name), "summary"), "new": len(new)}


def _name_outcome(row: Row) -> tuple[object, ...]:
    """Return what tells how a call comes out from every other outcome."""
    return row.session, row.seq, row.call.call, row.call.change, row.call.after, row.call.needs


def undo_change(file: Path, *, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Show what the former version of a file would change, and bring it back once somebody says so."""
    kept = FormerPolicies(Home.open().policies, file)
    now, before = (data.decode("utf-8", "replace") for data in kept.read_newest())
    told: dict[str, Json] = {"file": str(file), "diff": "".join(compare_texts(now, before))}
    if not as_json:
        _print_difference(compare_texts(now, before))
    if dry_run:
        _tell("nothing was changed (--dry-run)", told | {"changed": False}, as_json)
    elif _agree(f"bring the former version of {file} back?", yes):
        kept.take_back()
        _tell(f"{file}: brought back", told | {"changed": True}, as_json)


def compare_texts(before: str, after: str) -> Iterator[str]:
    """Yield the lines that differ between two texts, each with its line break, with two lines around them."""
    lines = unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm="")
    return (f"{line}\n" for number, line in enumerate(lines) if number > 1)


def _print_difference(lines: Iterator[str]) -> None:
    for line in lines:
        options.print_text(line.rstrip("\n"))


def _agree(question: str, yes: bool) -> bool:
    """Whether somebody says yes; raise UsageError where nobody can be asked."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here; look at it with --dry-run, then give --yes")
    agreed = typer.confirm(question)
    if not agreed:
        typer.echo("nothing was changed", err=True)
    return agreed


def _tell(said: str, told: dict[str, Json], as_json: bool) -> None:
    if as_json:
        options.print_json(told)
    else:
        options.print_text(said)
