"""The worked example happens: its page is played from top to bottom, and prints what stands on it."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import foregate
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.work_sandbox import find_work_tier
from foregate.cli.app import main
from foregate.policy.source.load import default_policy
from foregate.testing import ScriptedPerson
from tests.docs.pages import DOCS, FENCE, text_of

PAGE = DOCS / "tuning.md"
MORNINGS = 3
CHANGING = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4}|[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}")
"""What no two runs print alike: names of sessions, and times."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project of the example, as current folder, where sandboxes show what a command changes."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "FOREGATE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FOREGATE_POLICY", "foregate.yaml")
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "shop"
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder / "prices.txt").write_text("apples 3\n")
    monkeypatch.chdir(folder)
    with closing(LocalWorkspace(folder)) as opened:
        if find_work_tier(opened, default_policy())["tier"] != "full":
            pytest.skip("this machine has no sandboxes")
    return folder


def chat(folder: Path, requests: list[str], answers: list[str]) -> None:
    """Send requests to the rehearsal model in a session of its own, in which exactly these answers are wanted."""
    person = ScriptedPerson(answers)
    policy = folder / "foregate.yaml"
    with foregate.Agent(workspace=folder, model="rehearsal", person=person, policy=policy) as agent:
        for request in requests:
            assert agent.run_sync(request).status == "completed"
    person.finish()


def read_commands(block: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words of each command of a block, without `foregate`, and the lines shown below it."""
    for part in block.replace("\\\n", "").split("$ foregate ")[1:]:
        command, *shown = part.splitlines()
        yield shlex.split(command), [line for line in shown if line.strip() and not line.startswith("$ ")]


def find_missing(shown: list[str], printed: str) -> list[str]:
    """Return the shown lines that were not printed in this order, each whole or up to its `...`."""
    left, missing = iter(CHANGING.sub("#", printed).splitlines()), []
    for line in (CHANGING.sub("#", line) for line in shown if line.strip() != "..."):
        cut = line.removesuffix("...")
        if not any(one.startswith(cut) if cut != line else one.rstrip() == line for one in left):
            missing.append(line)
            break
    return missing


def test_the_worked_example_is_played_and_prints_what_its_page_shows(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played, compared = 0, 0
    for _, language, block in FENCE.findall(text_of(PAGE)):
        if language in ("sh", "yaml"):
            name = block.splitlines()[0].removeprefix("# ")
            (place / name).write_text(block)
        elif language == "":
            requests = [line.removeprefix("you> ") for line in block.splitlines()]
            for _ in range(1 if played else MORNINGS):
                chat(place, requests, [] if played else ["yes"] * len(requests))
            played += 1
        else:
            for name in re.findall(r"^\$ mkdir (\w+)$", block, re.MULTILINE):
                (place / name).mkdir()
            for words, shown in read_commands(block):
                code, printed = main(words), capsys.readouterr().out
                assert code == any(line.startswith("FAIL") for line in shown)
                assert find_missing(shown, printed) == [], printed
                compared += len(shown)
    assert (played, compared > 50) == (2, True)
