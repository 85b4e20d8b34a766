"""What a plan promises of a command's work is looked at in the workspace, whatever the command and the answer say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel, ScriptedPerson, answers, calls, says
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.telemetry.log.memory_log import MemoryLog
from tests.agent.world import plan_json
from tests.policies import policy_with

TALK = "I understand: I write a note, and then I run the script."


@pytest.mark.parametrize(
    ("script", "check", "target", "remark"),
    [
        ("true\n", "file_exists", "out.txt", "it is there (failed)"),
        ("echo hi > out.txt\n", "command_succeeds", "grep -q hi out.txt", ""),
    ],
)
async def test_what_a_command_should_have_made_is_looked_for(
    tmp_path: Path, script: str, check: str, target: str, remark: str
) -> None:
    (tmp_path / "x.sh").write_text(script)
    wanted = {"text": "it is there", "check": check, "target": target, "expected": None}
    planned = answers(plan_json("write_file", "n.txt") | {"success_criteria": [wanted]})
    work = (calls(("write_file", {"path": "n.txt", "content": "n"}), text=TALK), planned)
    claim = says("out.txt has been created and verified.")
    model = ScriptedModel([*work, calls(("run_command", {"argv": ["sh", "x.sh"]})), claim, *[claim] * bool(remark)])
    policy = policy_with({"plan.due": "first_side_effect", "mandate.mode": "off"})
    options = SessionOptions(
        workspace=tmp_path, model=model, log=MemoryLog(), person=ScriptedPerson([]), environ={}, policy=policy
    )
    opened = await open_session(options)
    result = await run(opened.session, "write n.txt, and run sh x.sh so that out.txt is created")
    await opened.close()
    model.finish()
    assert result.text == claim.text + (f"\n\n{result.remark}" if remark else "")
    assert result.remark.endswith(f"{remark}]" if remark else "")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


async def test_a_commit_by_the_shell_is_no_false_claim(repository: Path) -> None:
    line = "echo a > a.txt; git add a.txt; git -c user.name=a -c user.email=a@b.example commit -qm A"
    work = calls(("run_shell", {"command": line}), text=TALK)
    model, person = ScriptedModel([work, says("Committed.")]), ScriptedPerson([])
    options = SessionOptions(workspace=repository, model=model, log=MemoryLog(), person=person, environ={})
    opened = await open_session(options)
    result = await run(opened.session, "write a.txt and commit it")
    await opened.close()
    assert [*(repository / ".git/refs/heads").iterdir()] != []
    assert (result.text, result.remark) == ("Committed.", "")
