"""`policy sweep` at the command line."""

from __future__ import annotations

import fcntl
from pathlib import Path
from xml.etree import ElementTree

import pytest

from foregate.cli import options
from tests.cli.commands.test_what_if import objects
from tests.cli.conftest import Cli


def test_a_sweep_says_where_anything_turns_and_counts_labels(cli: Cli) -> None:
    cli("run", "clean this up")
    code, out, err = cli("policy", "sweep", "uncertainty.threshold", "--json", "--svg", "chart.svg")
    assert (code, err) == (0, "")
    (found,) = objects(out)
    assert [(one["low"], one["high"], one["held"]) for one in found["points"]] == [([0], [550], 1), ([551], [1000], 0)]
    assert found["now"] == [{"turns": found["turns"], "values": [550]}]
    assert ElementTree.parse(Path("chart.svg")).getroot().tag.endswith("svg")
    code, out, _ = cli("policy", "sweep", "uncertainty.threshold")
    assert code == 0
    assert all(len(line) <= 82 for line in out.splitlines())
    assert "Nothing is labelled here" in out
    code, out, err = cli("policy", "sweep", "uncertainty.threshold", "--svg", "nowhere/chart.svg")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cannot be written (No such file or directory); name another file for the chart" in err


UNSWEPT = {
    "plan.mode": "`plan.mode` is no number",
    "uncertainty.treshold": "is unknown; did you mean `threshold`?",
    "rules.list": "`rules.list` is no number",
    "uncertainty": "`uncertainty` is no number",
    "": "`` is no key",
}


@pytest.mark.parametrize("key", UNSWEPT)
def test_a_sweep_of_a_key_that_is_no_number_or_none_at_all_is_one_sentence(cli: Cli, key: str) -> None:
    cli("run", "clean this up")
    code, out, err = cli("policy", "sweep", key)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert UNSWEPT[key] in err


def test_a_label_counts_where_the_call_comes_out_as_it_wants(cli: Cli) -> None:
    cli("run", "clean this up")
    (held,) = (
        row["address"] for row in objects(cli("audit", "show", "last", "--json")[1]) if row["severity"] == "warning"
    )
    assert cli("audit", "label", f"last/{held}", "too strict")[0] == 0
    (found,) = objects(cli("policy", "sweep", "uncertainty.threshold", "--json")[1])
    assert [(one["held"], one["agreed"]) for one in found["points"]] == [(1, 0), (0, 1)]
    assert "100 %" in cli("policy", "sweep", "uncertainty.threshold")[1]


def test_without_the_extra_a_sweep_counts_the_same_and_says_what_it_would_spare(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("run", "clean this up")
    _, kept, _ = cli("policy", "sweep", "uncertainty.threshold")
    monkeypatch.setattr("foregate.tuning.cube.find_spec", lambda name: None)
    code, out, _ = cli("policy", "sweep", "uncertainty.threshold")
    assert code == 0
    assert out.startswith(kept)
    assert "pip install 'foregate[tuning]'" in out.removeprefix(kept)


def test_where_there_can_be_no_cube_a_sweep_counts_the_same_and_says_why(cli: Cli, home: Path) -> None:
    cli("run", "clean this up")
    sweep = ("policy", "sweep", "uncertainty.threshold", "--json")
    (home / "cube").write_text("mine")
    code, without, err = cli(*sweep)
    assert (code, err.count("\n")) == (0, 1)
    assert "the cube in" in err
    assert (home / "cube").read_text() == "mine"
    (home / "cube").unlink()
    assert objects(without)[0]["points"] == objects(cli(*sweep)[1])[0]["points"]


def test_who_finds_the_cube_in_use_is_told_what_they_wait_for(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("run", "clean this up")
    (home / "cube").mkdir()
    with (home / "cube" / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        warn = options.print_problems

        def let_go(problems: list[str]) -> None:
            warn(problems)
            fcntl.flock(other, fcntl.LOCK_UN)

        monkeypatch.setattr(options, "print_problems", let_go)
        code, out, err = cli("policy", "sweep", "uncertainty.threshold", "--json")
    assert (code, err.count("\n")) == (0, 1)
    assert f"note: another process works on the cube in {home / 'cube'}" in err
    assert objects(out)[0]["points"]
