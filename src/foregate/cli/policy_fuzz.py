"""`foregate policy fuzz`: recorded calls written otherwise that come out milder, as ready-made cases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.assembly.home import open_home_log
from foregate.cli import options
from foregate.cli.new_file import write_new
from foregate.cli.options import take
from foregate.cli.policy import app
from foregate.cli.policy_test import load_tested
from foregate.views.terminal.exit_codes import COMPLETED, ERROR, run_async

if TYPE_CHECKING:
    from foregate.policy.policy import Policy
    from foregate.schemas.strict_json import Json
    from foregate.tuning.fuzzing import Finding

_TURNS = 200


@app.command("fuzz")
def fuzz(
    sessions: options.SessionNames = None,
    policy: options.PolicyFile = None,
    workspace: options.WorkspaceFolder = Path(),
    turns: Annotated[int, take("--turns", "Recorded turns to vary, the newest.", "N", min=1)] = _TURNS,
    output: Annotated[Path | None, take("--output", "Write a case for each find into this folder.", "FOLDER")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Rewrite calls that were held, denied or asked about: quoted, wrapped, in Unicode, by other tools. One that comes
    out milder under the policy is a find, with exit code 1. Nothing runs.
    """
    tested = load_tested(policy, workspace)
    count, seen = 0, set[tuple[str, str, str, str]]()
    for address, finding in _find(sessions or (), tested, turns):
        kind = (finding.variant.how, finding.variant.tool, finding.case.expected.code, finding.found.verdict)
        if kind in seen:
            continue
        seen.add(kind)
        count += 1
        _report(address, finding, tested, output, count, as_json)
    if not as_json:
        ways = "1 way to write a recorded call comes" if count == 1 else f"{count} ways to write recorded calls come"
        options.print_text(f"{ways} out milder")
    raise typer.Exit(ERROR if count else COMPLETED)


def _find(names: list[str] | tuple[()], policy: Policy, most: int) -> Iterator[tuple[str, Finding]]:
    from itertools import islice

    from foregate.assembly.home import find_judged_sessions
    from foregate.schemas.tool_spec import build_catalogue
    from foregate.tuning.case_testing import list_newest
    from foregate.tuning.fuzzing import find_milder
    from foregate.tuning.rejudging import find_other_versions

    with open_home_log() as log:
        sessions = run_async(find_judged_sessions(log, names))
        options.print_problems(find_other_versions(log, sessions))
        for session, recorded in islice(list_newest(log, sessions), most):
            catalogue = build_catalogue(recorded.in_force.require()[1])
            for finding in find_milder(recorded.turn, policy, catalogue):
                yield f"{session}:{recorded.seq}", finding


def _report(address: str, finding: Finding, policy: Policy, output: Path | None, number: int, as_json: bool) -> None:
    """Print a find, and write its case where a folder is named."""
    from foregate.tuning.case import dump_case, format_case
    from foregate.tuning.fuzzing import cut_finding

    how, found, expected = finding.variant.how, finding.found.describe(), finding.case.expected.describe()
    file = output / f"fuzz-{number:03}.yaml" if output is not None else None
    case = cut_finding(finding, policy) if file is not None or as_json else finding.case
    if file is not None:
        # Writing into it says what is wrong.
        with suppress(OSError):
            file.parent.mkdir()
        write_new(file, format_case(case, f"{how}: a variant of a call of {address} that came out {found}."))
    if as_json:
        row: dict[str, Json] = {"how": how, "from": address, "found": found, "expected": expected}
        options.print_json({**row, "case": dump_case(case), "file": str(file) if file is not None else None})
        return
    tool, arguments = finding.variant.tool, _shorten(finding)
    options.print_text(f"{how}: {tool} {arguments}")
    options.print_text(f"  of {address}: {expected}; so written: {found}")
    if file is not None:
        options.print_text(f"  {file}")


def _shorten(finding: Finding) -> str:
    from foregate.schemas import strict_json

    return strict_json.canonical(dict(finding.variant.arguments)).decode()[:160]
