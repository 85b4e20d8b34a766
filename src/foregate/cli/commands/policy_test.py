"""`foregate policy test`: cases are judged under a policy, for people and for build servers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli.commands import options
from foregate.cli.commands.options import take
from foregate.cli.commands.policy import app, require_folder
from foregate.cli.terminal.exit_codes import COMPLETED, ERROR
from foregate.schemas.errors import UsageError

if TYPE_CHECKING:
    from foregate.cases.testing import CaseResult
    from foregate.policy.policy import Policy

Files = Annotated[list[Path], typer.Argument(metavar="FILES", help="Cases, or folders that hold them.")]


@app.command("test", short_help="Judge test cases under a policy.")
def test(
    files: Files,
    policy: options.PolicyFile = None,
    workspace: options.WorkspaceFolder = Path(),
    junit: Annotated[Path | None, take("--junit", "Write a JUnit report there.", "FILE")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge cases under the policy in force, or that of --policy. Exit code 1 where one comes out otherwise than
    expected, 2 where a file or the policy cannot be used."""
    from foregate.cases.testing import list_case_files, read_cases, run_case

    tested = load_tested(policy, workspace)
    results = [run_case(file, case, tested) for file, case in read_cases(list_case_files(files))]
    if junit is not None:
        _write_report(junit, results, policy or "in force")
    print_results(results, as_json)
    raise typer.Exit(COMPLETED if all(result.passed for result in results) else ERROR)


def load_tested(policy: str | None, workspace: Path) -> Policy:
    """Return the policy to test: that of a file, else the one in force."""
    from foregate.assembly.open import find_policy_file
    from foregate.policy.source.load import load_policy_layers

    return load_policy_layers(find_policy_file(policy, os.environ), require_folder(workspace)).policy


def print_results(results: Sequence[CaseResult], as_json: bool) -> None:
    """Print what became of each case, those that came out otherwise marked, and how many did."""
    if as_json:
        options.print_json_rows(result.to_json() for result in results)
        return
    for result in results:
        options.print_text(f"{'ok  ' if result.passed else 'FAIL'}  {result.file}: {result.sentence}")
    passed = sum(result.passed for result in results)
    options.print_text(f"{passed} of {len(results)} cases as expected")


def _write_report(file: Path, results: Sequence[CaseResult], policy: str) -> None:
    from foregate.cases.testing import format_junit

    try:
        file.write_text(format_junit(results, policy), "utf-8")
    except OSError as error:
        raise UsageError(f"`{file}` cannot be written ({error.strerror}); name another file for the report") from None
