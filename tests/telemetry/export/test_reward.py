"""A reward is a function of the user's, loaded from where it was named and nowhere else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.workspace.user_files import load_function
from foregate.schemas.errors import UsageError
from foregate.telemetry.export.atif import validate_document
from foregate.telemetry.export.fold import fold_trajectory
from foregate.telemetry.export.trajectory import Reward, Trajectory, compute_rewards
from tests.telemetry.export.stories import approved, logged, told


@pytest.fixture
async def trajectory() -> Trajectory:
    """A session of four responses."""
    world, _ = await told(approved)
    return fold_trajectory(logged(world.log, "s"))


def load(named: str) -> Reward:
    """Return the reward function `MODULE:FUNCTION` names."""
    return load_function(named, "a trajectory")


def test_a_load_function_a_file_is_loaded_under_a_name_nothing_imports(tmp_path: Path, trajectory: Trajectory) -> None:
    for name in ("json", "foregate", "telemetry"):
        file = tmp_path / f"{name}.py"
        file.write_text(
            "from __future__ import annotations\nimport dataclasses, json\nfrom foregate import Trajectory\n"
            "@dataclasses.dataclass\nclass Held:\n    count: int\n"
            "def score(trajectory: Trajectory) -> float:\n"
            "    held = Held(sum(a.standing == 'deny' for s in trajectory.steps for a in s.actions))\n"
            "    return json.loads('1.5') - held.count\n"
        )
        assert compute_rewards(load(f"{file}:score"), trajectory) == [0, 0, 0, 0.5]
    assert json.__file__ != str(tmp_path / "json.py")
    assert "telemetry" not in sys.modules


def test_a_module_is_imported_but_never_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trajectory: Trajectory
) -> None:
    installed, here = tmp_path / "installed", tmp_path / "here"
    for folder, value in ((installed, 1), (here, 2)):
        folder.mkdir()
        (folder / "worth_of_it.py").write_text(f"def score(trajectory):\n    return {value}\n")
    (here / "only_here.py").write_text("def score(trajectory):\n    return 3\n")
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", ["", str(here), *sys.path, str(installed)])
    assert compute_rewards(load("worth_of_it:score"), trajectory)[-1] == 1
    with pytest.raises(UsageError, match=r"`only_here` cannot be imported .* write `only_here.py:FUNCTION`"):
        load("only_here:score")
    assert sys.path[0] == ""


def test_a_file_of_the_current_folder_stands_in_for_no_module_also_when_python_was_started_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "rewards.py").write_text("import atif, tomllib\ndef score(trajectory):\n    return 1\n")
    for name in ("atif.py", "tomllib.py"):
        (tmp_path / name).write_text("raise SystemExit('shadowed')\n")
    code = (
        "import sys; sys.path.insert(0, ''); from foregate.agent.workspace.user_files import load_function; "
        "print(load_function('rewards.py:score', 'a trajectory')(None))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("score", "names no function"),
        ("json:", "names no function"),
        ("json:no name", "names no function"),
        ("json:__doc__", "has no function `__doc__`"),
        ("nothing_of_this_name:score", "cannot be imported"),
        ("nowhere.py:score", "there is no file"),
    ],
)
def test_what_cannot_be_loaded_is_one_sentence(named: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        load(named)


@pytest.mark.parametrize("source", ["raise ValueError('x')", "raise SystemExit", "def (", "import nothing_like_it"])
def test_a_file_that_fails_while_it_is_loaded_is_one_sentence(tmp_path: Path, source: str) -> None:
    (tmp_path / "r.py").write_text(source)
    with pytest.raises(UsageError, match="cannot be loaded"):
        load(f"{tmp_path / 'r.py'}:score")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), "give a finite number"),
        (float("inf"), "give a finite number"),
        (10**400, "give a finite number"),
        (None, "give a finite number"),
        ("1", "give a finite number"),
        ([1, 2], "gave 2 numbers .* has 4 responses"),
        ([1, 2, 3, float("nan")], "give a finite number"),
        (ZeroDivisionError("x"), "failed on session `s`"),
    ],
    ids=str,
)
def test_what_is_no_reward_is_refused_in_one_sentence(value: Any, why: str, trajectory: Trajectory) -> None:
    def score(_: Trajectory) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    with pytest.raises(UsageError, match=why):
        compute_rewards(score, trajectory)


def test_numbers_for_each_response_are_taken_as_they_are(trajectory: Trajectory) -> None:
    assert compute_rewards(lambda _: (1, 0.5, True, 0), trajectory) == [1, 0.5, 1, 0]


def test_the_page_s_example_is_a_reward(tmp_path: Path, trajectory: Trajectory) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "export-trajectories.md").read_text("utf-8")
    (tmp_path / "rewards.py").write_text(page.split("```python\n")[1].split("```")[0])
    assert compute_rewards(load(f"{tmp_path / 'rewards.py'}:score"), trajectory) == [0, 0, 0, 0.9]


def test_the_page_s_step_is_atif() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "trajectories.md").read_text("utf-8")
    step = json.loads(page.split("```json\n")[1].split("```")[0])
    agent = {"name": "foregate", "version": "1"}
    validate_document({"schema_version": "ATIF-v1.8", "agent": agent, "steps": [{**step, "step_id": 1}]})
    with pytest.raises(UsageError, match="not sequential"):
        validate_document({"schema_version": "ATIF-v1.8", "agent": agent, "steps": [step]})
