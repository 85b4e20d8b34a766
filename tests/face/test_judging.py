"""Judging without executing: a turn built from a response and surveys is judged as in a session, and nothing runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.workspace.local import LocalWorkspace
from foregate.judging import answer_need, build_turn, judge, survey
from foregate.policy.source.load import default_policy
from foregate.schemas.errors import UsageError
from foregate.schemas.judgement import Judgement, Need, Standing
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.tool_call import Survey, ToolCall
from foregate.schemas.tool_spec import Catalogue, build_catalogue

POLICY = default_policy()
EDIT = ToolCall.of("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})


def tools_of(folder: Path) -> Catalogue:
    """Return the built-in tools' specifications."""
    workspace = LocalWorkspace(folder)
    try:
        return build_catalogue([tool.spec for tool in builtin_tools(workspace, POLICY, memory=folder / "memory")])
    finally:
        workspace.close()


def judged(folder: Path, *calls: ToolCall, text: str = "", **known: object) -> Judgement | Need:
    """Return the judgement of a response with these calls."""
    (folder / "a.txt").write_text("teh cat\n")
    catalogue, response = tools_of(folder), ModelResponse(text, calls)
    found = survey(response, catalogue, request="mend a.txt", workspace=folder)
    turn = build_turn(response, found, request="mend a.txt", policy=POLICY, catalogue=catalogue, **known)
    return judge(turn, POLICY, catalogue)


def test_a_read_is_allowed_and_an_edit_of_what_nobody_read_is_held_with_the_read_as_its_remedy(tmp_path: Path) -> None:
    found = judged(tmp_path, ToolCall.of("read_file", {"path": "a.txt"}), EDIT)
    assert isinstance(found, Judgement)
    assert [verdict.standing for verdict in found.verdicts] == [Standing.ALLOW, Standing.HOLD]
    held = found.verdicts[1].ruling
    assert held.code == "missing_pre_execution_evidence"
    assert held.remedy is not None
    assert (tmp_path / "a.txt").read_text() == "teh cat\n"


def test_a_tool_nobody_knows_is_denied(tmp_path: Path) -> None:
    found = judged(tmp_path, ToolCall.of("edit_fiel", {}))
    assert isinstance(found, Judgement)
    assert (found.verdicts[0].standing, found.verdicts[0].ruling.code) == (Standing.DENY, "unknown_tool")


def test_a_need_is_answered_in_the_turn_which_is_judged_again(tmp_path: Path) -> None:
    shell = ToolCall.of("run_shell", {"command": "make release", "access": ["network:example.org"]})
    catalogue, response = tools_of(tmp_path), ModelResponse("I am going to make the release now.", (shell,))
    found = survey(response, catalogue, request="run `make release`", workspace=tmp_path)
    turn = build_turn(response, found, request="run `make release`", policy=POLICY, catalogue=catalogue, attended=True)
    for _ in range(4):
        said = judge(turn, POLICY, catalogue)
        if isinstance(said, Judgement):
            break
        yes = {"choice": "yes", "by": "person", "text": ""} if said.who == "person" else None
        turn = answer_need(turn, said, yes, error="" if yes else "nobody plans here")
    assert isinstance(said, Judgement)
    assert (said.verdicts[0].standing, said.verdicts[0].ruling.code) == (Standing.ALLOW, "approval_granted")


def test_a_survey_for_each_call_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="1 calls and 0 surveys"):
        build_turn(ModelResponse("", (EDIT,)), (), catalogue=tools_of(tmp_path))


def test_a_survey_belongs_to_the_call_in_whose_place_it_stands(tmp_path: Path) -> None:
    turn = build_turn(ModelResponse("", (EDIT,)), (Survey("taken-elsewhere"),), catalogue=tools_of(tmp_path))
    assert [found.call for found in turn.surveys] == ["c1.1"]
