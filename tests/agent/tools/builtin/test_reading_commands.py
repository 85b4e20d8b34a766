"""Commands that read run in a sandbox, and what they printed is evidence like that of the file tools."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.agent.survey.surveyor import Surveyor
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.tools.commands import run_command, run_shell
from foregate.agent.tools.git import git_status
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.confinement import find_tier
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.session import SessionState
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.risk.rule_matching import apply_rules
from foregate.policy.source.load import default_policy
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.event import TurnJudged
from foregate.schemas.judgement import Standing
from foregate.schemas.tool_call import EvidenceKind, Survey, ToolCall, ToolResult, Trust
from foregate.schemas.tool_spec import Effect, build_catalogue
from tests.agent.tools.builtin.test_git import git
from tests.conftest import OpenSession
from tests.events import bodies
from tests.gates.turns import turn

POLICY = default_policy()
TEXT = "one\ntwo\nthree\n"


@pytest.fixture(autouse=True)
def full(tmp_path_factory: pytest.TempPathFactory) -> None:
    """These tests are about machines with sandboxes."""
    space = LocalWorkspace(tmp_path_factory.mktemp("probe"))
    probe = find_tier(space, POLICY)
    space.close()
    if probe["tier"] != "full":
        pytest.skip(f"there is no sandbox here: {probe['reason']}")


async def shell(workspace: Workspace, line: str, **more: str) -> ToolResult:
    return await run_shell(workspace, POLICY).run({"command": line, **more})


def survey(workspace: Workspace, name: str, **arguments: object) -> Survey:
    box = Toolbox(builtin_tools(workspace, POLICY))
    surveyor = Surveyor(workspace, box, POLICY, build_catalogue(list(box.specs())))
    return surveyor.survey_call(ToolCall.of(name, arguments, id="c"), SessionState())  # type: ignore[arg-type]


def seen(result: ToolResult) -> dict[str, tuple[EvidenceKind, Trust]]:
    return {record.resource.id: (record.kind, record.trust) for record in result.evidence}


WHOLE, PART = (EvidenceKind.FILE_READ, Trust.DIRECT), (EvidenceKind.FILE_READ, Trust.INFERRED)
THERE = (EvidenceKind.COMMAND_OUTPUT, Trust.INFERRED)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("cat a.txt", {"a.txt": WHOLE}),
        ("cat a.txt b.txt", {"a.txt": WHOLE, "b.txt": WHOLE}),
        ("cat -n a.txt", {"a.txt": WHOLE}),
        ("nl -ba a.txt | cat", {"a.txt": WHOLE}),
        ("head -n 99 a.txt", {"a.txt": WHOLE}),
        ("sed -n p a.txt", {"a.txt": WHOLE}),
        ("sed -n 2,3p a.txt", {"a.txt": PART}),
        ("head -1 a.txt", {"a.txt": PART}),
        ("grep -n two a.txt", {"a.txt": PART}),
        ("grep -c two a.txt", {"a.txt": THERE}),
        ("wc -l a.txt", {"a.txt": THERE}),
        ("sed s/two/2/ a.txt", {"a.txt": THERE}),
        ("cat < a.txt", {"a.txt": WHOLE}),
        ("cd d && cat c.txt", {"d": THERE, "d/c.txt": WHOLE}),
        ("cat a.txt; echo ---; cat b.txt", {"a.txt": WHOLE, "b.txt": WHOLE}),
        ("ls d", {"d": THERE}),
        ("cat *.txt", {}),
        ("tr a-z A-Z < a.txt > /dev/null; true", {"a.txt": THERE}),
    ],
)
async def test_what_a_read_printed_is_evidence_of_just_that(
    folder: Path, workspace: Workspace, line: str, found: dict[str, tuple[EvidenceKind, Trust]]
) -> None:
    (folder / "d").mkdir()
    for name, text in (("a.txt", TEXT), ("b.txt", "bee\n"), ("d/c.txt", "sea\n")):
        (folder / name).write_text(text)
    result = await shell(workspace, line)
    assert (result.ok, seen(result)) == (True, found)


async def test_a_line_the_person_approved_is_evidence_of_what_it_printed_too(
    folder: Path, workspace: Workspace
) -> None:
    (folder / "a.txt").write_text(TEXT)
    assert seen(await shell(workspace, "cat a.txt; touch made")) == {"a.txt": WHOLE}
    assert (folder / "made").exists()
    assert seen(await shell(workspace, "echo x >> a.txt; echo done")) == {}


@pytest.mark.parametrize("line", ["cat a.txt | wc -l", "for f in *; do cat $f; done", "cd . && ls; x=$(cat a.txt)"])
def test_a_line_that_reads_is_an_observation_and_any_other_is_not(
    folder: Path, workspace: Workspace, line: str
) -> None:
    (folder / "a.txt").write_text("x")
    found = survey(workspace, "run_shell", command=line)
    assert found.resources[0].access is Effect.OBSERVATION
    assert survey(workspace, "run_shell", command=f"{line}; rm a.txt").resources[0].access is Effect.EXECUTE


async def test_a_line_that_reads_asks_nobody(folder: Path, workspace: Workspace, open_session: OpenSession) -> None:
    (folder / "a.txt").write_text("x\n")
    session = await open_session(
        calls(("run_shell", {"command": "grep -c x *.txt | cat 2>/dev/null"})),
        says("done"),
        tools=[run_shell(workspace, POLICY)],
        policy=POLICY,
    )
    await run(session, "how many lines have an x?")
    judged = bodies(await session.log.read(), TurnJudged)
    assert [verdict.standing for body in judged for verdict in body.judgement.verdicts] == [Standing.ALLOW]


@pytest.mark.parametrize("line", ["sort a.txt --output a.txt", "python3 --version > a.txt", "sed -n 'w a.txt' b.txt"])
async def test_a_misread_line_would_change_nothing(folder: Path, workspace: Workspace, line: str) -> None:
    """Each of these counts as work; here they stand inside a wrapper nobody reads rightly: a file that is a read."""
    (folder / "a.txt").write_text("b\na\n")
    (folder / "b.txt").write_text("c\n")
    listed = POLICY.commands.model_copy(update={"reads": {**POLICY.commands.reads, "sh": POLICY.commands.reads["ls"]}})
    careless = POLICY.model_copy(update={"commands": listed})
    (folder / "x.sh").write_text(line)
    result = await run_shell(workspace, careless).run({"command": "sh x.sh"})
    assert not result.ok
    assert (folder / "a.txt").read_text() == "b\na\n"


async def test_a_secret_file_is_there_only_for_a_line_that_names_it(folder: Path, workspace: Workspace) -> None:
    (folder / ".env").write_text("TOKEN=canary\n")
    assert "canary" not in (await shell(workspace, "cat .e* 2>&1 | cat; grep -r TOKEN . | cat")).content
    assert (await shell(workspace, "cat .env | cat")).content == "TOKEN=canary\n"
    assert [r.protected for r in survey(workspace, "run_shell", command="cat .env | cat").resources] == ["", "secret"]
    assert [r.protected for r in survey(workspace, "run_shell", command="grep -r TOKEN .").resources] == ["", ""]


@pytest.mark.parametrize("argv", [["ls", ".git"], ["cat", ".git/HEAD"], ["find", ".", "-not", "-path", "*/.git/*"]])
def test_a_look_at_gits_own_folder_is_no_change_of_it(folder: Path, workspace: Workspace, argv: list[str]) -> None:
    git(folder, "init", "-q")
    found = survey(workspace, "run_command", argv=argv)
    box = Toolbox(builtin_tools(workspace, POLICY))
    call = ToolCall.of("run_command", {"argv": argv}, id="c")
    facts = compute_turn_facts(turn(call, surveys=(found,)), POLICY, build_catalogue(list(box.specs())))["c"]
    assert (facts.effect, apply_rules(facts, POLICY).then) == (Effect.OBSERVATION, "allow")


async def test_a_pipe_that_never_ends_is_refused_and_its_name_may_be_looked_at(
    folder: Path, workspace: Workspace
) -> None:
    os.mkfifo(folder / "fifo")
    with pytest.raises(WorkspaceError, match="may never end"):
        await shell(workspace, "cat fifo")
    assert "fifo" in (await shell(workspace, "ls -l fifo")).content


@pytest.mark.parametrize("line", ["cat /etc/passwd", "cat ../x", "ls link"])
async def test_a_path_outside_is_refused_and_a_pattern_that_looks_like_one_is_not(
    folder: Path, workspace: Workspace, line: str
) -> None:
    (folder / "link").symlink_to("/etc")
    (folder / "a.txt").write_text("/etc/passwd\n")
    with pytest.raises(WorkspaceError, match="outside"):
        await shell(workspace, line)
    assert (await shell(workspace, "grep -n /etc/passwd a.txt")).content == "1:/etc/passwd\n"
    assert survey(workspace, "run_shell", command=line).resources[1].protected == "outside_workspace"


async def test_no_program_of_a_line_is_found_in_the_workspace(
    folder: Path, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "bin").mkdir()
    (folder / "bin/ls").write_text("#!/bin/sh\necho posing\n")
    (folder / "bin/ls").chmod(0o755)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/ls").symlink_to(folder / "bin/ls")
    monkeypatch.setenv("PATH", f"{folder}/bin:{tmp_path}/linked:{os.environ['PATH']}")
    for line in ("ls | cat", "timeout 5 ls", "sh -c ls", "echo $(ls)"):
        assert "posing" not in (await shell(workspace, line)).content


@pytest.mark.parametrize("line", ["git status", "git log --oneline", "git diff | cat", "cd sub && git status"])
async def test_a_read_of_git_is_the_evidence_that_the_git_tools_give(
    folder: Path, workspace: Workspace, line: str
) -> None:
    git(folder, "init", "-q")
    (folder / "sub").mkdir()
    (folder / "a.txt").write_text("x")
    git(folder, "add", "a.txt")
    git(folder, "commit", "-qm", "one")
    (record,) = (await git_status(workspace, POLICY).run({})).evidence
    assert record in (await shell(workspace, line)).evidence


async def test_a_version_of_a_file_that_git_shows_counts_where_the_file_is_the_same(
    folder: Path, workspace: Workspace
) -> None:
    git(folder, "init", "-q")
    (folder / "a.txt").write_text(TEXT)
    git(folder, "add", "a.txt")
    git(folder, "commit", "-qm", "one")
    assert seen(await shell(workspace, "git show HEAD:a.txt"))["a.txt"] == WHOLE
    (folder / "a.txt").write_text("other\n")
    assert seen(await shell(workspace, "git show HEAD:a.txt"))["a.txt"] == THERE


_HOSTILE = (
    ("core.fsmonitor", "./evil"),
    ("core.pager", "./evil"),
    ("core.hooksPath", "."),
    ("alias.status", "!./evil"),
    ("gpg.program", "./evil"),
)


@pytest.mark.parametrize(("key", "value"), _HOSTILE)
@pytest.mark.parametrize("line", ["git status", "git diff", "git log -p | cat", "git stash list", "git branch"])
async def test_what_a_repository_says_of_itself_is_not_run_by_a_read(
    folder: Path, workspace: Workspace, key: str, value: str, line: str
) -> None:
    git(folder, "init", "-q")
    (folder / "a.txt").write_text("x\n")
    (folder / "evil").write_text("#!/bin/sh\necho EVIL; echo EVIL >&2\n")
    (folder / "evil").chmod(0o755)
    git(folder, "add", "a.txt")
    git(folder, "commit", "-qm", "one")
    (folder / "a.txt").write_text("y\n")
    git(folder, "config", key, value)
    result = await shell(workspace, line)
    assert result.ok
    assert "EVIL" not in result.content


@pytest.mark.parametrize("key", ["filter.x.clean", "diff.x.textconv", "diff.x.command", "diff.external"])
async def test_a_repository_that_names_programs_is_refused_as_by_the_git_tools(
    folder: Path, workspace: Workspace, key: str
) -> None:
    git(folder, "init", "-q")
    git(folder, "config", key, "./evil")
    with pytest.raises(WorkspaceError, match="names a program git would run"):
        await shell(workspace, "git status | cat")


async def test_where_there_is_no_repository_git_says_so_itself(folder: Path, workspace: Workspace) -> None:
    result = await run_command(workspace, POLICY).run({"argv": ["git", "status"]})
    assert "not a git repository" in result.content


async def test_a_secret_that_git_tracks_does_not_look_deleted(folder: Path, workspace: Workspace) -> None:
    git(folder, "init", "-q")
    (folder / ".env").write_text("X=1\n")
    git(folder, "add", "-f", ".env")
    git(folder, "commit", "-qm", "one")
    assert (await shell(workspace, "git status --porcelain")).content == ""
