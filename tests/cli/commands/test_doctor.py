"""`foregate doctor`: how things stand here, and what to do about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foregate.agent.sandbox.plan import Failure
from foregate.agent.sandbox.probe import Probe
from foregate.agent.sandbox.starter import SandboxFailed
from foregate.agent.workspace import confinement
from foregate.agent.workspace.confinement import find_tier
from foregate.agent.workspace.local import LocalWorkspace
from foregate.policy.source import shipped
from foregate.policy.source.load import default_policy
from tests.cli.at_terminal import AtTerminal
from tests.cli.conftest import Cli


def test_it_names_the_tier_the_log_and_the_model(cli: Cli, home: Path) -> None:
    code, out, _ = cli("doctor")
    space = LocalWorkspace(Path())
    tier = find_tier(space, default_policy())["tier"]
    space.close()
    assert code == 0
    assert f"\nsandbox: {tier}\n" in out
    assert f"\nmcp servers: {'can' if tier == 'full' else 'cannot'} be confined\n  " in out
    assert f"\nlog: {home}\n" in out
    assert "\nmodel: rehearsal\n" in out
    assert "\ndefault policy: compiled\n" in out


def test_a_compiled_form_that_is_older_than_the_default_policy_is_named_with_what_mends_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "find_default", lambda _: None)
    _, out, _ = cli("doctor")
    assert "\ndefault policy: not compiled\n  its compiled form was made from another default.yaml, so each" in out
    assert "\n  to change it: run `make docs` where you changed default.yaml, else install Foregate again\n" in out


def test_where_there_is_no_sandbox_it_says_why_and_what_would_change_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Probe(tier="none", reason="user namespaces are turned off on this system", cure="sysctl x=1")
    monkeypatch.setattr(confinement, "_probe", lambda *_: refused)
    _, out, _ = cli("doctor")
    assert "sandbox: none\n  user namespaces are turned off on this system, so commands that only read run as" in out
    assert "\n  to change it: sysctl x=1\n" in out
    assert "\nmcp servers: cannot be confined\n  one with `confine` is not started\n" in out
    code, out, _ = cli("doctor", "--json")
    (sandbox,) = [one for one in json.loads(out) if one["name"] == "sandbox"]
    assert (code, sandbox["state"], sandbox["cure"]) == (0, "none", "sysctl x=1")


def test_a_sandbox_that_fails_by_a_fault_of_its_own_is_no_machine_without_one(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise SandboxFailed(Failure(step="fault", number=0, sentence="the sandbox failed: NameError: x"))

    monkeypatch.setattr(confinement, "_probe", fail)
    code, out, _ = cli("doctor")
    assert "sandbox: failed\n  the sandbox failed: NameError: x, so no command runs\n" in out
    assert "\n  to change it: install Foregate again, and report it where that does not help\n" in out
    assert "\nmcp servers: cannot be confined\n  one with `confine` is not started\n" in out
    assert code == 0


def test_a_workspace_or_policy_that_cannot_be_used_is_one_sentence(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("version: 2\n")
    for words in (("--workspace", "/nowhere"), ("--policy", str(tmp_path / "bad.yaml"))):
        code, out, err = cli("doctor", *words)
        assert (code, out, len(err.splitlines())) == (2, "", 1)


def test_at_a_terminal_no_word_is_broken_at_its_edge(tmp_path: Path, home: Path) -> None:
    (work := tmp_path / "work").mkdir()
    terminal = AtTerminal(work, home, "doctor")
    try:
        assert terminal.end() == 0
    finally:
        terminal.close()
    shown = terminal.seen.replace("\r", "")
    assert "OPENAI_BASE_URL to the address of an endpoint, and\n  OPENAI_API_KEY to its key" in shown
