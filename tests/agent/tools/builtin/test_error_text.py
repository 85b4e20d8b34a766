"""Reading error texts: the places they name, in the workspace only, with the lines around them."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate.agent.tools.looking import analyze_error
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall, ToolResult, Trust
from tests.agent.running import Bench, run_alone


@pytest.fixture
def tools(folder: Path, workspace: Workspace, policy: Policy) -> Toolbox:
    (folder / "src/my dir").mkdir(parents=True)
    for name in ("app.py", "src/main.rs", "src/my dir/x.py", "Makefile", ".env", "a.ts"):
        (folder / name).write_text("".join(f"line {n} of {name}\n" for n in range(1, 21)))
    return Bench(workspace, [analyze_error(workspace, policy)])


async def call(tools: Toolbox, text: str, **more: Json) -> ToolResult:
    return await run_alone(tools, ToolCall.of("analyze_error", {"text": text, **more}))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('  File "app.py", line 7, in <module>', "app.py:7"),
        ('  File "{root}/src/my dir/x.py", line 7', "src/my dir/x.py:7"),
        ("app.py:7: AssertionError", "app.py:7"),
        (" --> src/main.rs:7:5", "src/main.rs:7"),
        ("    at run ({root}/src/main.rs:7:5)", "src/main.rs:7"),
        ("src\\main.rs:7", "src/main.rs:7"),
        ("a.ts(7,5): error TS2304", "a.ts:7"),
        ("Makefile:7: *** missing separator", "Makefile:7"),
        ("./app.py:7:", "app.py:7"),
    ],
)
async def test_each_form_of_a_place_is_found(folder: Path, tools: Toolbox, text: str, place: str) -> None:
    found = await call(tools, text.replace("{root}", str(folder)), context_lines=1)
    name = place.partition(":")[0]
    assert found.content == f"{place}\n  6: line 6 of {name}\n> 7: line 7 of {name}\n  8: line 8 of {name}"
    assert [(r.resource.id, r.trust) for r in found.evidence] == [(name, Trust.INFERRED)]


@pytest.mark.parametrize(
    "text",
    [
        "nothing here",
        ".env:3: bad",
        "/etc/passwd:1",
        "../app.py:1",
        "gone.py:3",
        "src:3",
        "app.py:0",
        "http://a.org:80/",
    ],
)
async def test_nothing_else_is_shown(tools: Toolbox, text: str) -> None:
    found = await call(tools, text)
    assert found.ok
    assert found.content == "the text names no line of a file that can be read here"


async def test_paths_start_from_the_folder_named_and_stay_in_it(tools: Toolbox) -> None:
    assert (await call(tools, "main.rs:1", path="src")).content.startswith("src/main.rs:1\n> 1:")
    assert "names no line" in (await call(tools, "../app.py:1", path="src")).content


async def test_a_place_is_shown_once_and_at_most_as_many_as_asked_for(tools: Toolbox) -> None:
    text = "app.py:1 app.py:1 app.py:2 app.py:3"
    assert (await call(tools, text, context_lines=0)).content.count("> ") == 3
    assert (await call(tools, text, context_lines=0, max_results=2)).content.count("> ") == 2


async def test_a_line_beyond_the_end_is_said(tools: Toolbox) -> None:
    assert "has only 21 lines" in (await call(tools, "app.py:500")).content


class Counting(LocalWorkspace):
    """A workspace that counts the paths it was asked about."""

    asked = 0

    def resolve(self, path: str, *, follow: bool = True) -> str:
        self.asked += 1
        return super().resolve(path, follow=follow)


@pytest.mark.parametrize("text", ["app.py:1:" * 50_000, " ".join(f"f{n}.py:1" for n in range(50_000))])
async def test_a_text_that_names_ever_so_many_places_is_looked_into_to_a_bound(
    folder: Path, policy: Policy, text: str
) -> None:
    (folder / "app.py").write_text("line 1\n")
    workspace = Counting(folder)
    await call(Bench(workspace, [analyze_error(workspace, policy)]), text)
    assert 0 < workspace.asked < 3000
