"""Templates: placeholders and variables match exactly, and what a variable holds is never read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate.agent.tools.replacing import render_template
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall, ToolResult
from tests.agent.running import Bench, run_alone


@pytest.fixture
def tools(workspace: Workspace, policy: Policy) -> Toolbox:
    return Bench(workspace, [render_template(workspace, policy)])


async def call(tools: Toolbox, variables: Json, path: str = "out.txt") -> ToolResult:
    return await run_alone(
        tools, ToolCall.of("render_template", {"template": "t", "path": path, "variables": variables})
    )


async def test_a_file_is_written_from_its_template(folder: Path, tools: Toolbox) -> None:
    (folder / "t").write_text("Dear {{ name }},\n{{text}} {{ .name }} {single} }}\n")
    done = await call(tools, {"name": "Ada", "text": "{{ name }} {{ other }} é"}, "new/out.txt")
    assert done.ok, done.content
    assert (folder / "new/out.txt").read_text() == "Dear Ada,\n{{ name }} {{ other }} é Ada {single} }}\n"
    assert done.changes[0].resource.id == done.evidence[0].resource.id == "new/out.txt"


@pytest.mark.parametrize(
    ("template", "variables", "why"),
    [
        ("{{ a }} {{ b }}", {"a": "1"}, "also needs `b`"),
        ("{{ a }}", {"a": "1", "b": "2"}, "no placeholder for `b`"),
        ("x\n{{ a b }}", {}, "line 2 of the template"),
        ("{{ a.__class__ }}", {"a": "1"}, "line 1 of the template"),
        ("{{ a }}{{", {"a": "1"}, "line 1 of the template"),
    ],
)
async def test_what_does_not_match_exactly_writes_nothing(
    folder: Path, tools: Toolbox, template: str, variables: Json, why: str
) -> None:
    (folder / "t").write_text(template)
    done = await call(tools, variables)
    assert not done.ok
    assert why in done.content
    assert not (folder / "out.txt").exists()


async def test_a_protected_or_outside_place_is_refused(folder: Path, tools: Toolbox) -> None:
    (folder / "t").write_text("x")
    for path in (".git/hooks/pre-commit", "../out", "/tmp/out", "."):
        assert not (await call(tools, {}, path)).ok, path
