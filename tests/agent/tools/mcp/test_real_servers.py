"""Servers people use, unchanged, behind a real session: from PyPI, and from npm where there is node."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from foregate.agent.models.scripted import calls, says
from foregate.agent.workspace.confinement import find_tier
from foregate.evidence.reads import find_origin
from foregate.policy.source.load import check_text, default_policy
from foregate.schemas.event_body import CallAnswered, ToolFinished, ToolStarted
from foregate.schemas.tool_call import Origin
from tests.agent.tools.mcp.conftest import Bench
from tests.docs.pages import DOCS, text_of
from tests.events import bodies
from tests.npm import install_packages

PACKAGES = Path(__file__).with_name("package.json")
QUIET = {"effect": "observation", "read_only": True, "external_side_effect": False, "needs_approval": False}


def python(module: str, *args: str, **more: object) -> dict[str, object]:
    """Return the entry of a server from PyPI."""
    return {"command": sys.executable, "args": ["-I", "-m", module, *args], **more}


@pytest.fixture(params=["none", "read"])
def reading(request: pytest.FixtureRequest, bench: Bench) -> str:
    """How a server that only reads is confined: not at all, and as it can be where this machine has sandboxes."""
    return need_sandbox(bench, request.param)


@pytest.fixture(params=["none", "work"])
def working(request: pytest.FixtureRequest, bench: Bench) -> str:
    """How a server that changes the workspace is confined."""
    return need_sandbox(bench, request.param)


def need_sandbox(bench: Bench, confine: str) -> str:
    """Return `confine`; skip where this machine cannot confine."""
    probe = find_tier(bench.space, default_policy())
    if confine != "none" and probe["tier"] != "full":
        pytest.skip(f"no sandbox here: {probe['reason']}; {probe['cure']}")
    return confine


@pytest.fixture(scope="session")
def npm() -> Path:
    """The folder of the installed npm servers."""
    return install_packages(PACKAGES, "npm-servers") / "@modelcontextprotocol"


def node(npm: Path, name: str, *args: str, **more: object) -> dict[str, object]:
    """Return the entry of a server from npm."""
    return {"command": "node", "args": [str(npm / f"server-{name}" / "dist" / "index.js"), *args], **more}


async def test_the_time_server_is_undeclared_until_the_policy_says_it_observes(bench: Bench, reading: str) -> None:
    bench.serve({"time": python("mcp_server_time", "--local-timezone", "UTC", confine=reading)})
    await bench.pin()
    call = calls(("time.get_current_time", {"timezone": "UTC"}))
    events, _ = await bench.play(call, says("no"))
    assert [body.code for body in bodies(events, CallAnswered)] == ["approval_required"]
    events, _ = await bench.play(call, says("noon"), keys={"tools": {"time.get_current_time": QUIET}})
    (told,) = bodies(events, ToolFinished)
    assert '"timezone": "UTC"' in told.content
    assert told.origin == "external"


async def test_what_the_time_server_returns_is_its_own_as_the_page_says(bench: Bench) -> None:
    bench.serve({"time": python("mcp_server_time", "--local-timezone", "UTC")})
    await bench.pin()
    (shown,) = re.findall(r"(?ms)^sources:\n.*?(?=^```)", text_of(DOCS / "how-to" / "use-mcp-servers.md"))
    assert check_text("page", "page", shown) == []
    keys = {"tools": {"time.get_current_time": QUIET}, **YAML(typ="safe", pure=True).load(shown)}
    call = calls(("time.get_current_time", {"timezone": "UTC"}))
    events, _ = await bench.play(call, says("noon"), keys=keys)
    (started,), (told,) = bodies(events, ToolStarted), bodies(events, ToolFinished)
    assert (started.own, find_origin(started, told)) == ("all", Origin.WORKSPACE)


@pytest.fixture
def staged(folder: Path) -> Path:
    """The workspace as a repository without a commit, and a file that is staged."""
    (folder / "a.txt").write_text("x")
    for words in (["init", "-q"], ["add", "a.txt"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    return folder


async def test_the_git_server_reads_as_the_policy_says_and_asks_before_it_commits(
    bench: Bench, staged: Path, reading: str
) -> None:
    bench.serve({"git": python("mcp_server_git", "--repository", str(bench.workspace), confine=reading)})
    await bench.pin()
    where = {"repo_path": str(bench.workspace)}
    steps = [calls(("git.git_status", where)), calls(("git.git_commit", {**where, "message": "m"})), says("x")]
    events, _ = await bench.play(*steps, keys={"tools": {"git.git_status": QUIET}})
    assert "a.txt" in bodies(events, ToolFinished)[0].content
    assert [body.code for body in bodies(events, CallAnswered)] == ["outside_mandate"]  # it has read the status
    assert not list((staged / ".git/refs/heads").iterdir())


async def test_the_file_server_keeps_to_its_folder_and_a_target_the_policy_names_is_surveyed(
    bench: Bench, npm: Path, working: str
) -> None:
    (bench.workspace / "a.txt").write_text("inside\n")
    bench.serve({"fs": node(npm, "filesystem", str(bench.workspace), confine=working)})
    await bench.pin()
    inside, outside = str(bench.workspace / "a.txt"), str(bench.root / "mcp.json")
    reads = {**QUIET, "targets": {"path": {"kind": "file", "access": "observation"}}}
    writes = {
        "effect": "edit",
        "external_side_effect": False,
        "needs_approval": False,
        "reversible": True,
        "targets": {"path": {"kind": "file", "access": "edit"}},
    }
    steps = [
        calls(("fs.read_text_file", {"path": "a.txt"}), ("fs.read_text_file", {"path": outside})),
        calls(("fs.write_file", {"path": inside, "content": "new"})),
        says("x"),
    ]
    keys = {"tools": {"fs.read_text_file": reads, "fs.write_file": writes}, "evidence.mode": "off"}
    events, _ = await bench.play(*steps, keys=keys, say=f"write new to {inside}")
    assert [body.code for body in bodies(events, CallAnswered)] == ["denied_by_rule"]
    assert (bench.workspace / "a.txt").read_text() == "new"
    (written,) = [body for body in bodies(events, ToolStarted) if body.tool == "fs.write_file"]
    (change,) = bodies(events, ToolFinished)[-1].changes
    assert (len(written.before), change.resource.id) == (1, "a.txt")


async def test_the_memory_server_remembers_across_sessions(bench: Bench, npm: Path) -> None:
    kept = bench.root / "memory.jsonl"
    bench.serve({"memory": node(npm, "memory", env={"MEMORY_FILE_PATH": str(kept)})})
    await bench.pin()
    entity = {"name": "Ada", "entityType": "person", "observations": ["likes paint"]}
    await bench.play(calls(("memory.create_entities", {"entities": [entity]})), says("kept"), replies=["yes"])
    assert "Ada" in kept.read_text()
    events, _ = await bench.play(calls(("memory.search_nodes", {"query": "paint"})), says("Ada"), replies=["yes"])
    assert "Ada" in bodies(events, ToolFinished)[0].content


async def test_of_the_server_with_everything_text_images_and_resources_come_back_as_text_with_sizes(
    bench: Bench, npm: Path, reading: str
) -> None:
    bench.serve({"every": node(npm, "everything", "stdio", confine=reading)})
    await bench.pin()
    steps = [calls(("every.echo", {"message": "hello"})), calls(("every.get-tiny-image", {})), says("x")]
    events, _ = await bench.play(*steps, replies=["yes", "yes"])
    echo, image = [body.content for body in bodies(events, ToolFinished)]
    assert "hello" in echo
    assert "(image, image/png, " in image
    assert " bytes, not shown)" in image
