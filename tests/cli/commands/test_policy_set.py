"""`policy set`, `apply` and `undo` at the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

READS = "{id: no-reads, then: deny, tool: read_file}"
MINE = "# mine\nnarration:\n  min_chars: 30   # why\n"


@pytest.fixture
def mine(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A policy file in force."""
    file = Path("mine.yaml").absolute()
    file.write_text(MINE)
    monkeypatch.setenv("FOREGATE_POLICY", str(file))
    return file


def test_a_key_is_set_after_what_recorded_sessions_would_have_been_and_undone_again(cli: Cli, mine: Path) -> None:
    cli("run", "in a.txt replace teh with the")
    mine.chmod(0o640)
    code, out, err = cli("policy", "set", "narration.min_chars", "5", "--yes")
    assert (code, err) == (0, "")
    assert "-  min_chars: 30   # why\n+  min_chars: 5   # why" in out
    assert "Under mine.yaml, of 2 calls in 1 session none comes out differently." in out
    assert mine.read_text() == MINE.replace("30", "5")
    assert mine.stat().st_mode & 0o777 == 0o640
    assert [name for name in os.listdir() if name.startswith(".foregate")] == []
    assert cli("policy", "set", "rules.list.runs-by-itself.then", "deny", "--yes", "--last", "0")[0] == 0
    assert "id: runs-by-itself\n      then: deny\n      protected: [runs_by_itself]" in mine.read_text()
    assert cli("policy", "undo", "--yes")[0] == 0
    assert mine.read_text() == MINE.replace("30", "5")
    assert cli("policy", "undo", "--yes")[0] == 0
    assert mine.read_text() == MINE
    code, _, err = cli("policy", "undo", "--yes")
    assert (code, "no former version" in err) == (2, True)


def test_a_change_that_could_not_be_used_or_that_nobody_agrees_to_is_not_made(cli: Cli, mine: Path) -> None:
    for arguments, says in (
        (("narration.min_char", "5"), "did you mean `min_chars`?"),
        (("narration.mode", "on"), 'mine.yaml:4: `narration.mode` is `"on"`; allowed is one of `enforce`'),
        (("narration.mode.x", "on"), "`narration.mode` has no keys; it is one value"),
        (("sensitive.patterns", "['(?=x)']"), "is no RE2 pattern"),
        (("narration.min_chars",), "give a VALUE, or --unset"),
        (("narration.min_chars", "5", "--last", "0"), "nobody can be asked here"),
        (("rules.list.nobodys.then", "ask"), "there is no rule `nobodys`"),
        (("narration.min_chars", "[", "--yes"), "this is not YAML"),
    ):
        code, _, err = cli("policy", "set", *arguments)
        assert code == 2
        assert says in err
        assert mine.read_text() == MINE
    assert cli("policy", "set", "narration.mode", "on")[2].startswith("foregate: as changed, ")
    code, out, _ = cli("policy", "set", "narration.mode", "off", "--dry-run", "--json")
    assert (code, json.loads(out)["changed"], mine.read_text()) == (0, False, MINE)


def test_a_file_that_somebody_else_changed_since_is_not_taken_back(cli: Cli, mine: Path) -> None:
    cli("policy", "set", "narration.min_chars", "--unset", "--yes")
    assert mine.read_text() == "# mine\n"
    mine.write_text("# by hand\n")
    code, _, err = cli("policy", "undo", "--yes")
    assert (code, mine.read_text()) == (2, "# by hand\n")
    assert "was changed since by something else than a command" in err


def test_a_suggestion_is_laid_over_the_file_with_its_words_shown(cli: Cli, mine: Path) -> None:
    Path("quiet.yaml").write_text("# It saves twelve prompts.\nnarration: {mode: shadow}\nlimits: {turns: 9}\n")
    code, out, _ = cli("policy", "apply", "quiet.yaml", "--yes")
    assert (code, out.splitlines()[0]) == (0, "It saves twelve prompts.")
    assert mine.read_text() == f"{MINE}  mode: shadow\nlimits:\n  turns: 9\n"
    assert "says so already" in cli("policy", "apply", "./quiet.yaml", "--yes")[1]


def test_only_a_file_of_ones_own_is_changed(cli: Cli) -> None:
    for named, says in (((), "no policy file is in force"), (("--policy", "classic"), "not yours to change")):
        code, _, err = cli("policy", "set", "narration.mode", "off", *named)
        assert (code, says in err) == (2, True)


def test_what_the_file_does_already_is_counted_and_not_listed_as_what_the_change_does(cli: Cli, mine: Path) -> None:
    cli("run", "in a.txt replace teh with the", "--policy", "balanced")
    mine.write_text(f"{MINE}rules: {{list: [{{id: no-edit, then: deny, tool: edit_file}}]}}\n")
    code, out, _ = cli("policy", "set", "narration.min_chars", "5", "--dry-run")
    assert (code, "newly held      edit_file" in out) == (0, False)
    assert "Not listed: 1 call that the unchanged file turns, too." in out
    told = json.loads(cli("policy", "set", "rules.list.no-reads", READS, "--dry-run", "--json")[1])
    assert told["what_if"]["new"] == 1
