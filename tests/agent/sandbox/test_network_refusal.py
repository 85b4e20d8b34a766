"""A command that failed for want of something outside its sandbox is told, in one sentence, what to request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.tools.network_refusal import explain_refusal
from foregate.policy.risk.access import parse_access

PSQL = "psql: error: connection to server {} failed: {}\n\tIs the server running?"
OUTPUTS = [
    ("curl: (7) Failed to connect to localhost port 8080 after 0 ms: Couldn't connect to server", "port:8080"),
    ("Error: connect ECONNREFUSED 127.0.0.1:5432\n    at TCPConnectWrap.afterConnect", "port:5432"),
    ("Error: connect ECONNREFUSED ::1:5432", "port:5432"),
    ("dial tcp [::1]:6379: connect: connection refused", "port:6379"),
    ("dial tcp 127.0.0.1:6379: connect: connection refused", "port:6379"),
    ("Could not connect to Redis at 127.0.0.1:6379: Connection refused", "port:6379"),
    (PSQL.format('at "localhost" (127.0.0.1), port 5432', "Connection refused"), "port:5432"),
    (
        PSQL.format('on socket "/var/run/postgresql/.s.PGSQL.5432"', "No such file or directory"),
        "socket:/var/run/postgresql/.s.PGSQL.5432",
    ),
    (
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
        "socket:/var/run/docker.sock",
    ),
    (
        "ERROR 2002: Can't connect to local server through socket '/run/mysqld/mysqld.sock' (2), no such file",
        "socket:/run/mysqld/mysqld.sock",
    ),
    (
        PSQL.format('at "localhost" (127.0.0.1), port 5432', "could not create socket: Operation not permitted"),
        "port:5432",
    ),
    ("curl: (6) Could not resolve host: packages.example", "network:packages.example"),
    ("ssh: Could not resolve hostname example.org: Temporary failure in name resolution", "network:example.org"),
    ("wget: unable to resolve host address \u2018example.org\u2019", "network:example.org"),
    ("Error: getaddrinfo EAI_AGAIN registry.example\n    at GetAddrInfoReqWrap", "network:registry.example"),
    ("bash: line 1: example.org: Temporary failure in name resolution", "network:example.org"),
    ("open /dev/kvm: no such file or directory", "device:/dev/kvm"),
    ("Could not open '/dev/dri/renderD128': No such file or directory", "device:/dev/dri/renderD128"),
    (
        "OSError: [Errno 30] Read-only file system: '/home/u/.pyenv/versions/3/lib/x.py'",
        "folder:/home/u/.pyenv/versions/3/lib",
    ),
]


def explain(output: str, *wanted: str, code: int | None = 1, given: tuple[str, ...] = ()) -> str:
    return explain_refusal(output, code, wanted, [parse_access(text) for text in given], home="/home/u")


@pytest.mark.parametrize(("output", "access"), OUTPUTS)
def test_what_a_program_complains_of_is_named_as_it_is_requested(output: str, access: str) -> None:
    said = explain(output)
    assert said.endswith(f"; request access `{access}`.")
    assert said.count(". ") == 0
    assert parse_access(access)


@pytest.mark.parametrize(("output", "access"), OUTPUTS)
def test_nothing_is_said_of_what_was_given(output: str, access: str) -> None:
    assert access not in explain(output, given=(access,))


@pytest.mark.parametrize(("output", "access"), OUTPUTS)
def test_nothing_is_said_of_a_command_that_went_well(output: str, access: str) -> None:
    assert explain(output, "packages.example", code=0) == ""


def test_hosts_that_were_wanted_come_first_and_at_most_three_are_named() -> None:
    said = explain(OUTPUTS[0][0], "packages.example", "not a host", "localhost", "b.example", "c.example", "d.example")
    assert said == (
        "It wanted to reach `packages.example` and `b.example` and `c.example`, which is not given to its sandbox; "
        "request access `network:packages.example`, `network:b.example`, `network:c.example`."
    )


def test_a_call_that_was_ended_is_explained_as_well() -> None:
    assert "network:packages.example" in explain("", "packages.example", code=None)


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (
            "mv: cannot create regular file '/usr/x': Read-only file system",
            "have it write in the workspace, `/tmp` or its home.",
        ),
        ("npm ERR! code EROFS", "have it write in the workspace, `/tmp` or its home."),
        ("head: error writing 'standard output': No space left on device", "in the workspace, where most is."),
        ("File size limit exceeded", "in the workspace, where most is."),
        ("MemoryError", "have it work in smaller parts."),
        ("FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", "in smaller parts."),
        ("sh: 1: Cannot fork: Resource temporarily unavailable", "have it start fewer at once."),
        ("RuntimeError: can't start new thread", "have it start fewer at once."),
        ("chown: changing ownership of 'a': Operation not permitted", "leave owners and the machine as they are."),
        ("OSError: [Errno 18] Invalid cross-device link: 'a' -> 'b'", "use `move_path`."),
        ("fatal: renaming 'a' failed: Invalid cross-device link", "use `move_path`."),
        ("connect to 192.0.2.1 port 443: Network is unreachable", "have it reach a host by name."),
    ],
)
def test_what_no_access_would_cure_is_told_without_a_request(output: str, words: str) -> None:
    said = explain(output)
    assert said.endswith(words)
    assert "request" not in said


SOCKETLESS = [
    "bash: socket: Operation not permitted",
    "dial tcp 192.0.2.1:443: socket: operation not permitted",
    "IO::Socket::INET: Operation not permitted at -e line 1.",
    "Connecting to 192.0.2.1:80... failed: Operation not permitted.",
    "Error: connect EPERM 192.0.2.1:443 - Local (undefined:undefined)",
    "    _socket.socket.__init__(self, family)\nPermissionError: [Errno 1] Operation not permitted",
    "urllib.error.URLError: <urlopen error [Errno 1] Operation not permitted>",
    "socket.gaierror: [Errno -3] Temporary failure in name resolution",
]


@pytest.mark.parametrize("output", SOCKETLESS)
def test_a_program_that_was_refused_a_socket_is_told_how_access_is_requested(output: str) -> None:
    said = explain(output)
    assert "request access `network:HOST`, `port:NUMBER` or `socket:/PATH`" in said
    assert "request" not in explain(output, given=("network",))


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("chmod: changing permissions of 'socket.py': Operation not permitted", "have it leave modes, times, owners"),
        ("cp: preserving times for 'b.txt': Operation not permitted", "have it leave modes, times, owners"),
        ("sh: 1: cannot create /etc/hosts: Permission denied", "have it write in the workspace, its home or `$TMPDIR`"),
    ],
)
def test_where_only_rules_hold_a_command_it_is_told_what_they_close(output: str, words: str) -> None:
    assert words in explain_refusal(output, 1, (), (), tier="limited")
    assert words not in explain(output)


@pytest.mark.parametrize(("tier", "why"), [("full", "Read-only file system"), ("limited", "Permission denied")])
def test_a_command_that_was_taken_for_one_that_reads_is_told_so(tier: Any, why: str) -> None:
    said = explain_refusal(f"touch: cannot touch 'a': {why}", 1, (), (), tier=tier, reads=True)
    assert said.startswith("It was taken for a command that only reads")


@pytest.mark.parametrize("output", ["", "2 failed, 3 passed", "cat: /dev/sda: No such file", "x: not found"])
def test_nothing_is_said_where_nothing_outside_was_wanted(output: str) -> None:
    assert explain(output) == ""


@given(output=st.text(max_size=400), wanted=st.lists(st.text(max_size=40), max_size=4))
def test_whatever_is_printed_the_answer_is_one_line_of_bounded_length(output: str, wanted: list[str]) -> None:
    said = explain(output, *wanted)
    assert len(said.splitlines()) <= 1
    assert said.isprintable()


@pytest.mark.parametrize("output", ["/a" * 40000, "127.0.0.1 " * 9000, "failed /" * 9000, "socket '/" * 9000])
def test_output_made_to_take_long_does_not(output: str) -> None:
    assert len(explain(output)) < 400
