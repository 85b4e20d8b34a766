"""What is given to a sandbox is what was requested, looked up here, and never what would give away the rest."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from foregate.agent.sandbox.plan import ProcessLimits, SandboxPlan, build_no_access
from foregate.agent.sandbox.visible import plan_read
from foregate.agent.workspace.access import check_secrets_stay, give_access
from foregate.policy.risk.access import parse_access
from foregate.policy.source.load import default_policy
from foregate.schemas.errors import AccessError, WorkspaceError
from tests.policies import policy_with


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a workspace, folders for secrets, and what Foregate keeps."""
    for name in ("work/src", ".cache/tool/deep", ".ssh", ".config/tool", "own/blobs", "keys"):
        (tmp_path / "home" / name).mkdir(parents=True)
    (tmp_path / "home/.cache/tool/deep/.env").write_text("TOKEN=1")
    (tmp_path / "home/.cache/tool/credentials").write_text("token")
    (tmp_path / "home/link").symlink_to("/usr")
    (tmp_path / "home/short").symlink_to(".cache/tool")
    (tmp_path / "home/file").touch()
    return tmp_path / "home"


@pytest.fixture
def plan(home: Path) -> SandboxPlan:
    return plan_read(str(home / "work"), "/usr/bin:/bin", str(home), scratch_bytes=1 << 20, limits=ProcessLimits())


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A socket that listens."""
    made = tmp_path / "service.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(made))
        yield made


def give(plan: SandboxPlan, home: Path, *texts: str) -> SandboxPlan:
    wanted = map(parse_access, texts)
    return give_access(plan, wanted, default_policy(), home=str(home), own=str(home / "own"))


def test_nothing_requested_changes_nothing(plan: SandboxPlan, home: Path) -> None:
    assert give(plan, home) == plan
    assert plan["access"] == build_no_access()


def test_hosts_are_reached_by_https_alone_and_the_bounds_are_those_of_the_policy(plan: SandboxPlan, home: Path) -> None:
    wanted = [parse_access("network:b.example"), parse_access("network:a.example")]
    policy = policy_with({"commands.sandbox.sent": 7, "commands.sandbox.connections": 3})
    access = give_access(plan, wanted, policy, home=str(home), own=str(home / "own"))["access"]
    assert (access["network"], access["hosts"]) == ("hosts", ["a.example", "b.example"])
    assert (access["remote_ports"], access["sent_bytes"], access["connections"]) == ([443], 7, 3)


def test_an_open_network_takes_in_every_host_at_the_ports_of_the_policy(plan: SandboxPlan, home: Path) -> None:
    access = give(plan, home, "network", "network:a.example")["access"]
    assert (access["network"], access["hosts"], access["remote_ports"]) == ("open", [], [22, 80, 443])


def test_ports_are_given_without_a_network(plan: SandboxPlan, home: Path) -> None:
    access = give(plan, home, "port:5432", "port:80")["access"]
    assert (access["network"], access["ports"], access["remote_ports"]) == ("none", [5432, 80], [])


def test_a_socket_is_given_at_its_own_path_and_found_by_the_link_that_was_named(
    plan: SandboxPlan, home: Path, path: Path, tmp_path: Path
) -> None:
    (tmp_path / "run").symlink_to(tmp_path)
    named = str(tmp_path / "run" / "service.sock")
    given = give(plan, home, f"socket:{named}")
    assert given["access"]["sockets"] == [str(path)]
    assert given["links"][named] == str(path)


def test_other_sockets_in_what_is_seen_are_masked(plan: SandboxPlan, home: Path, path: Path) -> None:
    other = home / "work" / "other.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(other))
        assert str(other) in give(plan, home, f"socket:{path}")["masks"]
        assert str(other) not in give(plan, home, "port:1")["masks"]


def test_a_folder_is_given_with_its_secrets_masked(plan: SandboxPlan, home: Path) -> None:
    given = give(plan, home, f"folder:{home}/.cache/tool")
    assert given["access"]["folders"] == [f"{home}/.cache/tool"]
    assert {f"{home}/.cache/tool/deep/.env", f"{home}/.cache/tool/credentials"} <= set(given["masks"])
    linked = give(plan, home, f"folder:{home}/short")
    assert linked["access"] == given["access"]
    assert linked["links"][f"{home}/short"] == f"{home}/.cache/tool"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("folder:{home}", "no folder of your home"),
        ("folder:/usr", "no folder of your home"),
        ("folder:{home}/link", "no folder of your home"),
        ("folder:{home}/none", "make it first"),
        ("folder:{home}/file", "is no folder"),
        ("folder:{home}/own", "what Foregate keeps"),
        ("folder:{home}/own/blobs", "what Foregate keeps"),
        ("folder:{home}/work", "overlaps the workspace"),
        ("folder:{home}/work/src", "overlaps the workspace"),
        ("folder:{home}/.ssh", "kept for secrets"),
        ("folder:{home}/.config/tool", "kept for secrets"),
        ("socket:{home}/file", "no Unix socket"),
        ("socket:{home}/none", "no Unix socket"),
        ("device:/dev/video250", "no character device"),
    ],
)
def test_what_cannot_be_given_is_told_in_one_sentence(plan: SandboxPlan, home: Path, text: str, words: str) -> None:
    with pytest.raises(AccessError, match=words) as refused:
        give(plan, home, text.format(home=home))
    assert str(refused.value).count(". ") == 0


def test_a_socket_that_a_command_could_exchange_is_not_given(plan: SandboxPlan, home: Path) -> None:
    for place, *more in ((home / "work/a",), (home / ".cache/tool/a", f"folder:{home}/.cache/tool")):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(place))
            with pytest.raises(AccessError, match="could put another in its place"):
                give(plan, home, f"socket:{place}", *more)


def test_a_home_above_or_below_what_foregate_keeps_gives_neither(plan: SandboxPlan, home: Path) -> None:
    with pytest.raises(AccessError, match="what Foregate keeps"):
        give_access(
            plan,
            [parse_access(f"folder:{home}/keys")],
            default_policy(),
            home=str(home),
            own=str(home / "keys" / "deep"),
        )


def test_more_than_a_call_could_need_is_refused(plan: SandboxPlan, home: Path) -> None:
    with pytest.raises(AccessError, match="no more than 64"):
        give(plan, home, *(f"port:{number}" for number in range(1, 66)))


@pytest.mark.parametrize("text", ["network", "network:a.example", "port:1", "socket:{socket}"])
def test_no_program_that_reaches_something_sees_a_secret(plan: SandboxPlan, home: Path, path: Path, text: str) -> None:
    given = give(plan, home, text.format(socket=path))
    with pytest.raises(WorkspaceError, match=r"`conf/\.env` holds secrets") as refused:
        check_secrets_stay(given, ["conf/.env"])
    assert str(refused.value).count(". ") == 0
    with pytest.raises(WorkspaceError, match="holds secrets"):
        check_secrets_stay(given, [os.fspath(home / "work" / "key.pem")])


def test_masked_secrets_and_sandboxes_that_reach_nothing_pass(plan: SandboxPlan, home: Path) -> None:
    given = give(plan, home, "network")
    hidden: SandboxPlan = {**given, "masks": [f"{home}/work/conf", f"{home}/work/.env"]}
    check_secrets_stay(hidden, ["conf/.env", ".env", f"{home}/work/.env", "./.env"])
    check_secrets_stay(plan, ["conf/.env"])
    check_secrets_stay(give(plan, home, f"folder:{home}/.cache/tool"), ["conf/.env"])
