"""The tutorial shows what happens: its messages are sent to the rehearsal model, and its audit is taken."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path

import pytest

import foregate
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.work_sandbox import find_work_tier
from foregate.cli.app import main
from foregate.policy.source.load import default_policy
from foregate.testing import ScriptedPerson
from tests.docs.pages import DOCS, code_of

PAGE = DOCS / "tutorial.md"
(POLICY,) = code_of(PAGE, "yaml")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder the tutorial begins in, with the session it plays already in the log."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "FOREGATE_POLICY", "FOREGATE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    subprocess.run(["git", "init", "--quiet", str(inbox)], check=True)
    (inbox / "inbox.sh").write_text("count=3\necho ready to recieve $count messages\n")
    with closing(LocalWorkspace(inbox)) as opened:
        if find_work_tier(opened, default_policy())["tier"] != "full":
            pytest.skip("this machine has no sandboxes")
    (tmp_path / "looser.yaml").write_text(POLICY)
    person = ScriptedPerson(["yes"])
    with foregate.Agent(workspace=inbox, model="rehearsal", person=person) as agent:
        for block in code_of(PAGE, ""):
            agent.run_sync(block.splitlines()[0].removeprefix("you> "))
    person.finish()
    return tmp_path


def test_every_line_of_the_audit_that_the_tutorial_shows_is_printed(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    compared = 0
    for block in code_of(PAGE, "console")[1:]:
        for part in block.split("$ foregate ")[1:]:
            command, *shown = part.splitlines()
            assert main(command.split()) == 0
            printed = capsys.readouterr().out
            for line in (line for line in shown if line.strip() != "..." and not line.startswith("verified")):
                assert line.removesuffix("...").rstrip() in printed
                compared += 1
    assert compared > 10
