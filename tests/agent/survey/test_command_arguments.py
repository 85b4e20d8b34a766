"""What holds the command of a call, and why nothing does."""

from __future__ import annotations

import pytest

from foregate.agent.sandbox.probe import Probe
from foregate.agent.survey import command_arguments
from foregate.agent.survey.command_arguments import find_holder
from foregate.agent.tools.commands import run_shell
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_call import Command

POLICY = default_policy()


@pytest.mark.parametrize(
    ("cure", "reads", "unheld"),
    [
        ("free some space", "full", "no room; free some space"),
        ("", "limited", "no room"),
        ("free some space", "none", ""),
    ],
)
def test_a_command_that_could_be_held_elsewhere_says_why_it_is_not_here_and_what_helps(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, cure: str, reads: str, unheld: str
) -> None:
    probes = {
        "find_work_tier": {"tier": "none", "reason": "no room", "cure": cure},
        "find_tier": Probe(tier=reads, reason="", cure=""),  # type: ignore[typeddict-item]
    }
    for name, found in probes.items():
        monkeypatch.setattr(command_arguments, name, lambda *_, found=found: found)
    spec = run_shell(workspace, POLICY).spec
    assert find_holder(workspace, POLICY, spec, Command(shell="make")) == ("none", unheld)
