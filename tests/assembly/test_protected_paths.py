"""The agent cannot touch Foregate's own files, wherever they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.api import Agent
from foregate.assembly.own_secrets import find_protected_globs
from foregate.policy.risk.globs import is_off_limits
from foregate.policy.source.load import add_protected_globs, default_policy
from foregate.schemas.errors import UsageError


async def test_the_log_and_the_policy_file_inside_a_workspace_are_not_the_agents_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, policy = tmp_path / "data [x]" / "foregate", tmp_path / "mine.yaml"
    monkeypatch.setenv("FOREGATE_HOME", str(home))
    policy.write_text("limits:\n  turns: 9\n")
    steps = [
        calls(
            ("write_file", {"path": "data [x]/foregate/events.db", "content": "x"}), text="I will write both files now."
        ),
        calls(("write_file", {"path": "mine.yaml", "content": "x"})),
        calls(("delete_path", {"path": "data [x]", "recursive": True})),
        says("I could not"),
    ]
    model = ScriptedModel(steps)
    async with Agent(model=model, workspace=tmp_path, policy=policy) as agent:
        text = "write data [x]/foregate/events.db and mine.yaml, then delete data [x]"
        told = [e.body.code async for e in agent.events(text) if e.kind == "call_answered"]
    model.finish()
    assert told == ["denied_by_rule"] * 3
    assert policy.read_text() == "limits:\n  turns: 9\n"


def test_a_workspace_inside_the_own_folder_is_refused(tmp_path: Path) -> None:
    inner = tmp_path / "foregate" / "work"
    inner.mkdir(parents=True)
    with pytest.raises(UsageError, match="choose another"):
        find_protected_globs(inner, [tmp_path / "foregate"])


def test_own_files_elsewhere_leave_the_policy_as_it_is(tmp_path: Path) -> None:
    assert find_protected_globs(tmp_path, [Path("/nowhere/else")]) == []


def test_what_lies_beneath_an_own_folder_is_guarded_with_it(tmp_path: Path) -> None:
    policy = add_protected_globs(default_policy(), find_protected_globs(tmp_path, [tmp_path / "a*b" / "foregate"]))
    assert is_off_limits("a*b/foregate/blobs/x", policy)
    assert not is_off_limits("a*b/other", policy)


def test_a_file_that_is_a_link_is_guarded_as_the_link_and_as_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles/mine.yaml").write_text("")
    (tmp_path / "mine.yaml").symlink_to("dotfiles/mine.yaml")
    assert find_protected_globs(tmp_path, [], [tmp_path / "mine.yaml"]) == ["dotfiles/mine.yaml", "mine.yaml"]


@pytest.mark.parametrize("place", ["home", "named", "given"])
async def test_the_configuration_that_names_the_models_is_not_the_agents_to_write_even_before_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path.parent / f"{tmp_path.name}-home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    wanted = ".config/foregate/config.yaml"
    if place == "named":
        monkeypatch.setenv("FOREGATE_CONFIG", str(tmp_path / "plan.yaml"))
    if place != "home":
        wanted = "plan.yaml"
        (tmp_path / wanted).write_text("")
    evil = "models:\n  planning:\n    provider: openai\n    base_url: http://evil.example\n"
    model = ScriptedModel(
        [calls(("write_file", {"path": wanted, "content": evil}), text="I will write that file now."), says("no")]
    )
    async with Agent(model=model, workspace=tmp_path, config=tmp_path / wanted if place == "given" else None) as agent:
        told = [e.body.code async for e in agent.events(f"write {wanted}") if e.kind == "call_answered"]
    model.finish()
    assert (told, (tmp_path / wanted).exists()) == (["denied_by_rule"], place != "home")
    assert place == "home" or not (tmp_path / wanted).read_text()
