"""`foregate policy case|test`: recorded decisions become cases, and cases are judged under a policy."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from foregate.cli.listing import write_new
from foregate.schemas.errors import UsageError
from tests.cli.conftest import Cli, parse_lines

HELD = """\
case: delete-unread
expect: {verdict: hold, gate: evidence, code: missing_pre_execution_evidence}
tools: [{name: delete_path, effect: delete, targets: [{parameter: path, kind: file, access: delete}]}]
person: [delete a.txt]
calls:
- tool: delete_path
  arguments: {path: a.txt}
  found: {resources: [{kind: file, id: a.txt, access: delete, exists: true}]}
turn: {narrated: 100, attended: true}
"""
DENIED = "{verdict: deny, gate: rules, code: denied_by_rule, rules: [no-delete]}"
NO_DELETE = "rules: {list: [{id: no-delete, then: deny, tool: delete_path}]}\n"


@pytest.fixture
def case(home: Path) -> Path:
    file = Path("case.yaml")
    file.write_text(HELD)
    return file


def test_a_recorded_decision_becomes_a_case_that_holds_under_its_policy_and_not_under_another(cli: Cli) -> None:
    cli("run", "run rm a.txt")
    rows = [row for row in parse_lines(cli("audit", "show", "last", "--json")[1]) if row["code"].startswith("missing")]
    cut = ("policy", "case", f"last:{rows[0]['address']}", "--name", "rm-unread", "--output", "a/rm.yaml")
    code, out, err = cli(*cut)
    assert (code, out, Path("a").exists()) == (2, "", False)
    assert "`a/rm.yaml` cannot be written (No such file or directory); name a file in a folder of yours" in err
    Path("a").mkdir()
    code, out, err = cli(*cut)
    assert (code, err) == (0, "")
    assert out == "a/rm.yaml: rm-unread, hold by evidence (missing_pre_execution_evidence)\n"
    text = Path("a/rm.yaml").read_text()
    assert text.startswith("# A case for `foregate policy test`, from ")
    assert "case: rm-unread\nexpect: {verdict: hold, gate: evidence, code: missing_pre_execution_evidence}\n" in text
    assert cli("policy", "test", "a")[0] == 0
    Path("off.yaml").write_text("evidence: {mode: off}\n")
    assert cli("policy", "test", "a/rm.yaml", "--policy", "off.yaml")[0] == 1
    with pytest.raises(UsageError, match="there already"):
        write_new(Path("a/rm.yaml"), text)
    with pytest.raises(UsageError, match="cannot be written"):
        write_new(Path("off.yaml/rm.yaml"), text)


def test_a_failing_case_names_case_rule_and_code(cli: Cli, case: Path) -> None:
    Path("p.yaml").write_text(NO_DELETE)
    code, out, err = cli("policy", "test", str(case), "--policy", "p.yaml", "--junit", "report.xml")
    assert (code, err) == (1, "")
    assert out == (
        "FAIL  case.yaml: delete-unread: expected hold by evidence (missing_pre_execution_evidence); "
        "got deny by rules (denied_by_rule, rule no-delete)\n0 of 1 cases as expected\n"
    )
    suite = ElementTree.parse("report.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "1", "0")
    (failure,) = suite[0]
    assert (suite[0].get("name"), failure.tag, failure.get("type")) == ("delete-unread", "failure", "denied_by_rule")
    (row,) = parse_lines(cli("policy", "test", str(case), "--policy", "p.yaml", "--json")[1])
    assert (row["passed"], row["found"]["rules"], row["expected"]["code"]) == (
        False,
        ["no-delete"],
        "missing_pre_execution_evidence",
    )


def test_the_policy_in_force_is_tested_where_none_is_named(cli: Cli, case: Path) -> None:
    assert cli("policy", "test", ".")[1].endswith("1 of 1 cases as expected\n")
    Path(".foregate.yaml").write_text(NO_DELETE)
    case.rename("case.yml")
    assert cli("policy", "test", "case.yml")[0] == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "`case` is missing"),
        ("case: x\nexpect: {verdict: hold}\n", "missing required field `gate`"),
        ("case: &a x\n", "the anchor `&a`"),
        ("case: x\ncase: y\n", "is already on line 1"),
        (HELD.replace("attended: true", "attended: 1"), "Expected `bool`, got `int`"),
        (HELD + "more: 1\n", "`more` is no key of a case"),
    ],
)
def test_a_file_that_is_no_case_is_refused_in_one_sentence(cli: Cli, case: Path, text: str, says: str) -> None:
    case.write_text(text)
    code, out, err = cli("policy", "test", str(case))
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_a_case_that_fits_together_no_more_is_an_error_of_its_own(cli: Cli, case: Path) -> None:
    case.write_text(HELD.replace("turn: {", "turn: {now: someday, "))
    code, out, _ = cli("policy", "test", str(case), "--junit", "r.xml")
    assert code in (0, 1)
    assert "Traceback" not in out


@pytest.mark.parametrize(
    ("decision", "says"), [("last:99.evidence", "no judged turn"), ("x.y", "no decision"), ("last/1.plan", "no judged")]
)
def test_what_is_no_decision_is_no_case(cli: Cli, decision: str, says: str) -> None:
    cli("run", "read a.txt")
    code, out, err = cli("policy", "case", decision)
    assert (code, out) == (2, "")
    assert says in err


def test_a_folder_without_cases_is_refused(cli: Cli) -> None:
    Path("empty").mkdir()
    assert cli("policy", "test", "empty")[:2] == (2, "")


def test_what_no_case_notices_is_named_with_a_recorded_decision_that_would(cli: Cli, case: Path) -> None:
    cli("run", "run rm a.txt")
    code, out, err = cli("policy", "test", str(case), "--mutate", "--turns", "1", "--json")
    assert (code, err) == (0, "")
    rows = {row["key"]: row for row in parse_lines(out) if "key" in row}
    assert (rows["evidence.mode"]["noticed"], rows["evidence.mode"]["case"]) == (True, "case.yaml")
    assert not rows["rules.list.secrets-leave"]["noticed"]
    assert all(":" in row["offered"] for row in rows.values() if row["offered"])


def test_a_case_that_fails_is_left_out_of_what_cases_notice_and_this_is_said(cli: Cli, case: Path) -> None:
    Path("p.yaml").write_text(NO_DELETE)
    passing = case.with_name("denied.yaml")
    passing.write_text(HELD.replace("{verdict: hold, gate: evidence, code: missing_pre_execution_evidence}", DENIED))
    left_out = "Left out: 1 case, for only one that passes can notice a change.\n"
    code, out, _ = cli("policy", "test", str(case), "--policy", "p.yaml", "--mutate", "--turns", "0")
    assert (code, out.partition("cases as expected\n")[2]) == (1, left_out)
    code, out, _ = cli("policy", "test", str(case), str(passing), "--policy", "p.yaml", "--mutate", "--turns", "0")
    assert (code, out.endswith(f" keys and rules are noticed by a case\n{left_out}")) == (1, True)
    unnoticed = out.partition(", by section:\n")[2]
    assert "no-delete" not in unnoticed
    assert "\n  narration  " in unnoticed


def test_calls_that_get_around_a_rule_are_written_as_cases_that_fail_until_they_do_not(cli: Cli) -> None:
    Path("p.yaml").write_text('rules: {list: [{id: no-rm, then: deny, command: [rm, "**"]}]}\n')
    cli("run", "--policy", "p.yaml", "run rm a.txt")
    assert cli("policy", "fuzz", "--policy", "p.yaml", "--turns", "0")[0] == 2
    Path("wider.yaml").write_text("rules: {list: [{id: no-run, then: deny, tool: run_command}]}\n")
    code, out, err = cli("policy", "fuzz", "--policy", "wider.yaml", "--output", "none/found")
    assert (code, out, err.count("\n"), Path("none").exists()) == (2, "", 1, False)
    assert "`none/found/fuzz-001.yaml` cannot be written (No such file or directory)" in err
    code, out, err = cli("policy", "fuzz", "--policy", "p.yaml", "--output", "found")
    assert err == ""
    files = sorted(Path("found").glob("*.yaml")) if Path("found").exists() else []
    assert code == (1 if files else 0)
    assert f"{len(files)} way" in out
    assert all(cli("policy", "test", str(file), "--policy", "p.yaml")[0] == 1 for file in files)
