"""A command is bound to what stands in the script that its words name, however they name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate.agent.loop.executor import is_script_another
from foregate.agent.survey.surveyor import Surveyor
from foregate.agent.tools.commands import run_shell
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.session import SessionState
from foregate.policy.source.load import default_policy
from foregate.schemas.sandbox import Access
from foregate.schemas.tool_call import Command, Survey, ToolCall
from foregate.schemas.tool_spec import build_catalogue

POLICY = default_policy()
BOUND = """
sh sub/build.sh; ./sub/build.sh; cd sub && sh build.sh; cd sub && ./build.sh; (cd sub && . ./build.sh)
source sub/build.sh; bash -o pipefail sub/build.sh; python3 -X dev sub/build.sh; python3 -W error -u sub/build.sh x
.venv/bin/python sub/build.sh; /usr/bin/python3 sub/build.sh; tools/python3 sub/build.sh; uv run python sub/build.sh
uv run sub/build.sh; deno run -A sub/build.sh; sh < sub/build.sh; cat sub/build.sh | sh; env A=1 sh sub/build.sh
sh -c 'cd sub && exec sh ./build.sh'; make -f sub/build.sh all; mkdir -p x && timeout 9 sh sub/build.sh
"""
FREE = """
mkdir sub/build.sh; touch x && rm sub/build.sh; ./other sub/build.sh; sh other sub/build.sh
sh -c 'echo x' > sub/build.sh
"""


def split(lines: str) -> list[str]:
    return [line for part in lines.splitlines() for line in part.split("; ") if line]


def hash_twice(line: str, workspace: Workspace, folder: Path) -> tuple[str, str]:
    """Return what a line is bound to, before and after its script was written anew."""
    box = Toolbox([run_shell(workspace, POLICY)])
    surveyor = Surveyor(workspace, box, POLICY, build_catalogue(list(box.specs())))
    for name in ("sub/build.sh", "other", "tools/python3"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("before")
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/python").symlink_to("/usr/bin/env")
    found = []
    for text in ("before", "after"):
        (folder / "sub/build.sh").write_text(text)
        command = surveyor.survey_call(ToolCall.of("run_shell", {"command": line}, id="c"), SessionState()).command
        assert command is not None
        found.append(command.scripts)
    return found[0], found[1]


@pytest.mark.parametrize("line", split(BOUND))
def test_a_line_is_bound_to_the_script_it_runs(line: str, workspace: Workspace, folder: Path) -> None:
    before, after = hash_twice(line, workspace, folder)
    assert "" not in (before, after)
    assert before != after


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("make deploy", "Makefile"),
        ("make -j4 A=1", "Makefile"),
        ("cd sub && make", "sub/Makefile"),
        ("npm run deploy", "package.json"),
        ("npm --silent test", "package.json"),
        ("tox -e py", "tox.ini"),
    ],
)
def test_a_line_is_bound_to_the_file_that_says_what_it_runs_without_being_named(
    line: str, file: str, workspace: Workspace, folder: Path
) -> None:
    box = Toolbox([run_shell(workspace, POLICY)])
    surveyor = Surveyor(workspace, box, POLICY, build_catalogue(list(box.specs())))
    found = []
    for text in ("one", "two", "one"):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text)
        command = surveyor.survey_call(ToolCall.of("run_shell", {"command": line}, id="c"), SessionState()).command
        assert command is not None
        found.append(command.scripts)
    assert found[0] == found[2] != found[1]
    assert all(found)


@pytest.mark.parametrize("line", split(FREE))
def test_a_line_is_not_bound_to_what_it_does_not_run(line: str, workspace: Workspace, folder: Path) -> None:
    before, after = hash_twice(line, workspace, folder)
    assert before == after


@pytest.mark.parametrize(
    ("contained", "access", "is_another"),
    [(False, (), True), (True, (), False), (True, ("network:open",), True), (False, ("network:open",), True)],
)
def test_a_script_may_only_change_before_it_runs_where_all_it_does_is_judged_afterwards(
    contained: bool, access: tuple[Access, ...], is_another: bool
) -> None:
    judged = Survey("c", command=Command(("sh", "build.sh"), access=access, scripts="1"))
    now = Survey("c", command=Command(("sh", "build.sh"), access=access, scripts="2"))
    assert is_script_another(judged, now, contained=contained) is is_another
    assert not is_script_another(judged, judged, contained=contained)
