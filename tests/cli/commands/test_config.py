"""`foregate config`, and `--config` wherever a session is opened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foregate.agent.planning.configuration import default_configuration, lay_over_defaults, read_explanations
from tests.cli.conftest import Cli


@pytest.fixture(autouse=True)
def no_configuration(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration but the default."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home.parent / "config"))


def file_of(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_show_tells_what_differs_and_where_it_comes_from(cli: Cli, tmp_path: Path) -> None:
    assert cli("config", "show")[:2] == (0, "nothing differs from the default configuration\n")
    file = file_of(tmp_path, "# mine\nvalidation:\n  max_tasks: 12\n")
    assert cli("config", "show", "--config", str(file))[1] == "validation.max_tasks: 12  # mine.yaml:3\n"
    told = json.loads(cli("config", "show", "--config", str(file), "--json")[1])
    assert told["values"] == [{"key": "validation.max_tasks", "value": 12, "from": "mine.yaml:3"}]
    assert told["sources"] == ["default.yaml", str(file)]


def test_everything_in_force_is_shown_below_the_comment_that_explains_it(cli: Cli) -> None:
    lines = cli("config", "show", "--effective")[1].splitlines()
    values = [line for line in lines if not line.startswith("#")]
    assert len(values) == len(lay_over_defaults(None).values)
    for line in values:
        assert lines[lines.index(line) - 1] == f"# {read_explanations()[line.partition(':')[0]]}"


def test_every_key_of_the_defaults_is_explained() -> None:
    assert lay_over_defaults(None).values.keys() == lay_over_defaults(None).provenance.keys()
    assert lay_over_defaults(None).values.keys() <= read_explanations().keys()
    assert "Tokens of one response" in read_explanations()["models.planning.max_tokens"]


def test_check_names_every_problem_and_takes_the_file_a_session_would_read(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("config", "check")[:2] == (0, "there is no file, so the defaults hold\n")
    wrong = file_of(tmp_path, "mode: sometimes\nplanning: {max_plans: 0}\n")
    code, out, err = cli("config", "check", str(wrong))
    assert (code, out, len(err.splitlines())) == (2, "", 2)
    monkeypatch.setenv("FOREGATE_CONFIG", str(wrong))
    assert json.loads(cli("config", "check", "--json")[1])["usable"] is False
    monkeypatch.setenv("FOREGATE_CONFIG", str(file_of(tmp_path, "mode: plan\n")))
    assert cli("config", "check")[0] == 0


@pytest.mark.parametrize(
    "command",
    [
        ("plan", "read a.txt"),
        ("plan", "check", "plan.json"),
        ("execute", "plan.json", "--yes"),
        ("plans", "resume", "last"),
        ("plans", "retry", "last"),
        ("plans", "rollback", "last"),
        ("run", "read a.txt"),
        ("chat",),
        ("resume", "last"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_one_sentence_wherever_it_is_named(
    cli: Cli, tmp_path: Path, command: tuple[str, ...]
) -> None:
    assert cli("plan", "read a.txt", "--save", "plan.json")[0] == 0
    assert cli("execute", "plan.json", "--yes")[0] == 0
    wrong = file_of(tmp_path, "mode: sometimes\n")
    code, _, err = cli(*command, "--config", str(wrong))
    assert code == 2
    assert err.strip().splitlines()[-1].startswith(f"foregate: {wrong}:1: `mode` is")


def test_the_configuration_named_is_the_one_in_force(cli: Cli, tmp_path: Path) -> None:
    assert cli("plan", 'fix the typo "teh" -> "the" in a.txt', "--save", "plan.json")[0] == 0
    few = file_of(tmp_path, "planning: {min_tasks: 1, max_tasks_asked: 1}\nvalidation: {max_tasks: 1}\n")
    code, out, _ = cli("plan", "check", "plan.json", "--config", str(few))
    assert code == 2
    assert "1 are allowed" in out
    assert default_configuration().validation.max_tasks > 1
