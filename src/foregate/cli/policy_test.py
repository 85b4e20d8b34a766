"""`foregate policy test`, `case` and `fuzz`: cases are judged, cut from recorded decisions, and searched for gaps."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.assembly.home import open_home_log
from foregate.cli import options
from foregate.cli.listing import write_new
from foregate.cli.options import take
from foregate.cli.policy import app, require_folder
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import COMPLETED, ERROR, run_async

if TYPE_CHECKING:
    from foregate.policy.policy import Policy
    from foregate.schemas.strict_json import Json
    from foregate.tuning.case import Case
    from foregate.tuning.case_testing import CaseResult, KeyNotice
    from foregate.tuning.fuzzing import Finding


Files = Annotated[list[Path], typer.Argument(metavar="FILES", help="Cases, or folders that hold them.")]
_TURNS = 200


@app.command("test")
def test(
    files: Files,
    policy: options.PolicyFile = None,
    workspace: options.WorkspaceFolder = Path(),
    mutate: Annotated[bool, take("--mutate", "Name each rule and threshold that no case notices.")] = False,
    turns: Annotated[int, take("--turns", "With --mutate: the newest turns to offer from.", "N", min=0)] = 200,
    junit: Annotated[Path | None, take("--junit", "Write a JUnit report there.", "FILE")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge cases under the policy in force, or that of --policy. Exit code 1 where one fails, 2 where a file or the
    policy cannot be used.

    With --mutate Foregate moves each rule, switch, choice and number, and names those that no case notices, with a
    recorded decision whose case would.
    """
    from foregate.tuning.case_testing import list_case_files, read_cases, run_case

    tested = load_tested(policy, workspace)
    cases = list(read_cases(list_case_files(files)))
    results = [run_case(file, case, tested) for file, case in cases]
    if junit is not None:
        _write_report(junit, results, policy or "in force")
    print_results(results, as_json)
    if mutate:
        passed = [(result.file, result.case) for result in results if result.passed]
        print_notices(find_notices(passed, tested, turns) if passed else [], len(results) - len(passed), as_json)
    raise typer.Exit(COMPLETED if all(result.passed for result in results) else ERROR)


def load_tested(policy: str | None, workspace: Path) -> Policy:
    """Return the policy to test: that of a file, else the one in force."""
    from foregate.assembly.choices import find_policy_file
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


def find_notices(cases: Sequence[tuple[str, Case]], policy: Policy, turns: int) -> list[KeyNotice]:
    """Return which case notices each key, and which recorded decision would make such a case."""
    from msgspec.structs import replace

    from foregate.assembly.home import Home, find_sessions, open_home_log
    from foregate.tuning.case_testing import find_notices, find_offers

    found, left = find_notices(cases, policy)
    if not turns or not Home(Home.path()).events.exists():
        return found
    with open_home_log() as log:
        offers = find_offers(log, run_async(find_sessions(log, ())), policy, left, turns)
    return [replace(one, offered=offers.get(one.key, "")) for one in found]


def print_notices(notices: Sequence[KeyNotice], failed: int, as_json: bool) -> None:
    """Print the keys that no case notices, those first that a recorded decision would help.

    There are none where every case `failed`: only one that passes can notice anything.
    """
    from foregate.cli.policy_sweep import format_by_section
    from foregate.views.terminal.layout import pluralise

    if as_json:
        options.print_json_rows(notice.to_json() for notice in notices)
        return
    left = [notice for notice in notices if not notice.case]
    for notice in (notice for notice in left if notice.offered):
        options.print_text(f"unnoticed  {notice.key}: `foregate policy case {notice.offered}` would")
    if others := [notice.key for notice in left if not notice.offered]:
        options.print_text("unnoticed, and no turn looked at would help, by section:")
        for line in format_by_section(others, options.measure_terminal() or 80):
            options.print_text(line)
    if notices:
        options.print_text(f"{len(notices) - len(left)} of {len(notices)} keys and rules are noticed by a case")
    if failed:
        options.print_text(f"Left out: {pluralise(failed, 'case')}, for only one that passes can notice a change.")


def _write_report(file: Path, results: Sequence[CaseResult], policy: str) -> None:
    from foregate.tuning.case_testing import format_junit

    try:
        file.write_text(format_junit(results, policy), "utf-8")
    except OSError as error:
        raise UsageError(f"`{file}` cannot be written ({error.strerror}); name another file for the report") from None


Decision = Annotated[
    str, typer.Argument(metavar="SESSION:SEQ.GATE", help="A decision, as `foregate audit show` lists them.")
]


@app.command("case")
def case(
    decision: Decision,
    name: Annotated[str, take("--name", "What the case is called; else after its verdict.", "NAME")] = "",
    output: Annotated[Path | None, take("--output", "Write the case there instead of printing it.", "FILE")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Cut a recorded decision to the smallest case with the same verdict that notices the same policy changes."""
    from foregate.assembly.home import find_address
    from foregate.telemetry.queries.rulings import find_decision
    from foregate.tuning.case import dump_case, format_case
    from foregate.tuning.case_cutting import cut_recorded

    with open_home_log() as log:
        ruled = find_decision(log, *run_async(find_address(log, decision)))
        found = cut_recorded(log, ruled, name)
    if as_json:
        options.print_json(dump_case(found))
        return
    text = format_case(found, f"A case for `foregate policy test`, from {ruled.address}.")
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_new(output, text)
        options.print_text(f"{output}: {found.name}, {found.expected.describe()}")


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
