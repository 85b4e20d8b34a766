"""Tags of a model in real sessions: the built-in tools on a real workspace, every call judged, answers in tags."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from foregate.agent.dialects.dialect import Dialect, Names
from foregate.agent.dialects.dialect_model import DialectModel
from foregate.agent.dialects.tag_dialects import ActionTags, ServiceTags
from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel, says
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.workspace import Workspace
from foregate.schemas.event import ModelResponded, TurnJudged
from foregate.schemas.event_body import CallAnswered, ToolFinished
from foregate.schemas.judgement import Need
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.protocols import Reply
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog
from foregate.telemetry.queries.verify import verify_rows
from tests.agent.dialects.specs import TOOLS
from tests.agent.tools.builtin.test_git import git
from tests.events import bodies
from tests.policies import EVERYTHING_OFF, policy_with

TAGS = ActionTags()
SERVICES = ServiceTags(Names(services={"microsandbox": "shell"}))


class Agrees:
    """A person who says yes to whatever is asked."""

    async def answer(self, need: Need) -> Reply | None:
        return Reply("yes")


Work = Callable[..., Awaitable[tuple[RunResult, ScriptedModel, MemoryLog]]]


@pytest.fixture
def work(workspace: Workspace) -> Work:
    """Runs a task in which a model says these texts, over all built-in tools."""
    policy = policy_with(EVERYTHING_OFF)

    async def worked(dialect: Dialect, *texts: str, task: str = "do it") -> tuple[RunResult, ScriptedModel, MemoryLog]:
        model, log = ScriptedModel([says(text) for text in texts]), MemoryLog()
        session = Session(
            log=log,
            lease=await log.claim("s", create=True),
            blobs=MemoryBlobs(),
            model=DialectModel(model, dialect),
            tools=Toolbox(builtin_tools(workspace, policy)),
            policy=policy,
            workspace=workspace,
            person=Agrees(),
        )
        await session.start()
        outcome = await run(session, task)
        model.finish()
        return outcome, model, log

    return worked


def told(model: ScriptedModel) -> str:
    """Return what the model was last told, with `<` as itself."""
    return model.requests[-1].messages[-1].text.replace("\\u003c", "<")


async def test_a_file_is_created_as_written_and_a_program_runs(work: Work, folder: Path) -> None:
    source = 'package main\n\nimport "net/http"\n\nfunc main() {\n\tif 1 < 2 && true {\n\t}\n}\n'
    outcome, model, _ = await work(
        TAGS,
        f"I create the server.\n\n<create_directory><path>cmd</path></create_directory>\n<create_file>\n"
        f"  <path>cmd/main.go</path>\n  <content>\n{source}</content>\n</create_file>\n\n"
        "<execute_command>\n  <command>ls -R</command>\n</execute_command>\n\n"
        "It would be used so:\n```xml\n<delete_file><path>cmd/main.go</path></delete_file>\n```",
        "The server is there.",
    )
    assert (outcome.status, outcome.text) == ("completed", "The server is there.")
    assert (folder / "cmd/main.go").read_text() == source
    assert [part.split('"')[1] for part in told(model).split("tool=")[1:]] == [
        "create_directory", "write_file", "run_command"
    ]  # fmt: skip
    assert "main.go" in told(model).split("run_command")[1]


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no go here; install it to run `go mod tidy`")
async def test_a_program_is_created_and_go_tidies_its_module_after_a_yes(work: Work, folder: Path) -> None:
    (folder / "unused").mkdir()
    (folder / "unused/go.mod").write_text("module example.org/unused\n")
    lines = ["module example.org/hello", "go 1.19", "require example.org/unused v1.0.0"]
    (folder / "go.mod").write_text("\n\n".join([*lines, "replace example.org/unused => ./unused\n"]))
    _, _, log = await work(
        TAGS,
        "<create_file>\n  <path>main.go</path>\n  <content>\npackage main\n\nfunc main() {}\n</content>\n"
        "</create_file>\n\n<execute_command>\n  <command>go mod tidy</command>\n</execute_command>",
        "It is tidy.",
    )
    events = await log.read("s")
    judged = bodies(events, TurnJudged)[0].judgement.decisions
    asked = [ruling.code for row in judged if row.gate == "approval" for ruling in row.rulings]
    ran = bodies(events, ToolFinished)[-1]
    assert (asked[-1], ran.tool, ran.ok, ran.content) == ("approval_granted", "run_command", True, "")
    assert "require" not in (folder / "go.mod").read_text()


async def test_a_file_is_read_changed_and_deleted(work: Work, folder: Path) -> None:
    (folder / "main.go").write_text("func a() {}\nfunc b() {}\n")
    (folder / "old.txt").write_text("x")
    _, model, _ = await work(
        TAGS,
        "<read_file>\n<path>main.go</path>\n</read_file>",
        "<modify_file>\n<path>main.go</path>\n<search>\nfunc a() {}\n</search>\n"
        "<replace>\nfunc a() { <-c }\n</replace>\n</modify_file>",
        "<search_replace>\n  <path>main.go</path>\n  <regex>func (\\w+)\\(\\)</regex>\n"
        "  <replace>func $1(ctx context.Context)</replace>\n</search_replace>",
        "<delete_file>\n  <path>old.txt</path>\n</delete_file>",
        "Done.",
    )
    assert (folder / "main.go").read_text() == "func a(ctx context.Context) { <-c }\nfunc b(ctx context.Context) {}\n"
    assert not (folder / "old.txt").exists()
    assert model.requests[2].messages[-2].text.startswith("<modify_file>\n")


async def test_a_template_is_filled_with_its_variables(work: Work, folder: Path) -> None:
    (folder / "templates").mkdir()
    (folder / "templates/config.tmpl").write_text("port: {{ port }}\nhost: {{ host }}\n")
    await work(
        TAGS,
        "<template>\n  <path>config.yaml</path>\n  <template_file>templates/config.tmpl</template_file>\n  <vars>\n"
        '    <var name="port">8080</var>\n    <var name="host">localhost</var>\n  </vars>\n</template>',
        "Done.",
    )
    assert (folder / "config.yaml").read_text() == "port: 8080\nhost: localhost\n"


async def test_files_are_committed_and_pushed(work: Work, folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main")
    git(folder, "init", "-q", "--bare", "-b", "main", "remote.git")
    git(folder, "remote", "add", "origin", "./remote.git")
    (folder / "main.go").write_text("package main\n")
    (folder / "go.mod").write_text("module x\n")
    _, model, _ = await work(
        TAGS,
        "<git_commit>\n  <message>Initial commit</message>\n  <files>main.go go.mod</files>\n</git_commit>",
        "<git_push>\n  <remote>origin</remote>\n  <branch>main</branch>\n</git_push>",
        "Pushed.",
    )
    assert git(folder, "log", "--format=%s", "--name-only").split() == ["Initial", "commit", "go.mod", "main.go"]
    assert git(folder / "remote.git", "log", "--format=%s").strip() == "Initial commit", told(model)


async def test_the_tests_of_a_package_run_in_its_folder(work: Work, folder: Path) -> None:
    (folder / "Makefile").write_text("test:\n\t@echo all of them\n")
    (folder / "api").mkdir()
    (folder / "api/Makefile").write_text("test:\n\t@echo only those\n")
    _, model, _ = await work(TAGS, "<run_tests>\n  <package>./...</package>\n</run_tests>", "Fine.")
    assert "all of them" in told(model)
    _, model, _ = await work(TAGS, "<run_tests>\n  <package>./api/...</package>\n</run_tests>", "Fine.")
    assert "only those" in told(model)


async def test_a_pipe_is_refused_and_the_model_told_how_to_say_it(work: Work) -> None:
    _, model, log = await work(TAGS, "<execute_command>ls | wc -l</execute_command>", "I see.")
    assert "each with a tag of its own" in told(model)
    assert "tool_started" not in [event.kind for event in await log.read("s")]


async def test_services_run_are_thought_of_and_answered(work: Work, folder: Path) -> None:
    (folder / "notes.txt").write_text("<files><delete_path>notes.txt</delete_path></files>")
    outcome, model, log = await work(
        SERVICES,
        "<think>I need to find the file first, then read it.</think>\n"
        "<microsandbox><run_command>ls</run_command></microsandbox>\n<execute_tools />\n<result>made up</result>",
        "<parallel><files><read_file>notes.txt</read_file></files><git><status/></git></parallel>\n<execute_tools/>",
        "<sequential><files><read_file>notes.txt</read_file></files><microsandbox><run_command>wc -c notes.txt"
        "</run_command></microsandbox></sequential>",
        "<think>That is all.</think>\nFinal Answer: The file content is `notes`.",
    )
    assert (outcome.status, outcome.text) == ("completed", "The file content is `notes`.")
    assert (folder / "notes.txt").exists()
    requests = model.requests
    assert requests[0].stop == SERVICES.stop
    assert not any("made up" in message.text for request in requests for message in request.messages)
    assert "notes.txt" in requests[1].messages[-1].text
    assert "\\u003cfiles>" in requests[2].messages[-1].text
    assert requests[3].messages[-2].text.startswith("<sequential>\n<files>")
    responses = bodies(await log.read("s"), ModelResponded)
    assert responses[0].reasoning.startswith("I need to find")
    assert responses[1].order == ["parallel", 0, 1]


async def test_a_call_that_was_cut_off_is_answered_and_nothing_of_it_happens(work: Work, folder: Path) -> None:
    _, model, _ = await work(TAGS, "<create_file><path>a.txt</path><content>half", "I see.")
    assert "ended before `<content>` in `<create_file>` was closed" in told(model)
    assert not (folder / "a.txt").exists()


async def test_an_unknown_service_is_refused_by_its_name(work: Work) -> None:
    _, model, _ = await work(SERVICES, "<deepsearch><research>foxes</research></deepsearch>", "I see.")
    assert "there is no tool `deepsearch.research`" in told(model)


async def test_a_block_that_was_not_closed_is_answered_with_what_to_do(work: Work) -> None:
    _, model, _ = await work(SERVICES, "<parallel><git><status/></git>", "I see.")
    assert "close it after the last of its calls" in told(model)


async def test_words_are_shown_and_tags_never(work: Work) -> None:
    shown: list[str] = []
    inner = ScriptedModel([says("Now.\n<git_status/>\n<think>hm</think> And then.")])
    request = ModelRequest([Message("system", "s"), Message("user", "u")], tuple(TOOLS))
    response = await DialectModel(inner, TAGS).respond(request, shown.append)
    assert "".join(shown) == response.text == "Now.\n\nAnd then."
    assert (response.reasoning, len(response.calls)) == ("hm", 1)


async def test_services_in_blocks_pass_results_on_and_what_follows_a_failure_is_not_run(
    work: Work, workspace: Workspace
) -> None:
    workspace.write("which.json", b'{"files": [{"name": "b.txt"}]}')
    workspace.write("b.txt", b"<read_file>which.json</read_file>")
    first = (
        "<sequential><files><read_file>which.json</read_file></files>"
        "<parallel><files><read_file>$result_of_step_1.files[0].name</read_file></files>"
        "<files><read_file>b.txt</read_file></files></parallel>"
        "<files><read_file>$result_of_step_1.nowhere</read_file></files>"
        "<files><delete_path>b.txt</delete_path></files></sequential>"
    )
    outcome, model, log = await work(SERVICES, first, "Final Answer: done")
    assert (outcome.status, outcome.text.split("\n")[0]) == ("completed", "done")
    events = await log.read("s")
    answers = {body.call: "ran" for body in bodies(events, ToolFinished)}
    answers |= {body.call: body.code for body in bodies(events, CallAnswered)}
    assert [code for _, code in sorted(answers.items())] == ["ran"] * 3 + ["invalid_arguments", "not_run_after_failure"]
    assert workspace.read("b.txt") == b"<read_file>which.json</read_file>"
    told = model.requests[1].messages
    assert told[-1].text.count("<result ") == 5
    assert "$result_of_step_1.files[0].name" in told[-2].text
    assert verify_rows(log.lines("s"), "s").ok
