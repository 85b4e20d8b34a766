"""Completion: what is offered, and that a person who presses Tab in a real shell gets it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from foregate.cli.completion import SCRIPTS
from tests.cli.at_terminal import AtTerminal
from tests.cli.conftest import Cli

SHELLS: dict[str, tuple[tuple[str, ...], str]] = {
    "bash": (("--norc", "--noprofile", "-i"), 'eval "$(foregate completion bash)"; PS1="re""ady> "'),
    "zsh": (
        ("-f", "-i"),
        'autoload -Uz compinit; compinit -u -D; eval "$(foregate completion zsh)"; PS1="re""ady> "',
    ),
    "fish": (
        ("--no-config", "-i"),
        "foregate completion fish | source; function fish_prompt; echo -n re''ady'> '; end",
    ),
}
"""How each shell is started with none of the machine's own settings, and what a person puts into its settings. The
prompt tells when the shell itself reads the keys, and not yet the terminal."""
Typing = Callable[[str], None]


def offered(cli: Cli, *words: str) -> dict[str, str]:
    """Return what is offered for the last word, with what it is."""
    code, out, err = cli("completion", "bash", *words)
    assert (code, err) == (0, "")
    return dict(line.split("\t") for line in out.splitlines())


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (("au",), ["audit"]),
        (("audit", "sh"), ["show"]),
        (("help", "audit", "ver"), ["verify"]),
        (("run", "--dry"), ["--dry-run"]),
        (("run", "--dry-run", "--dry"), []),
        (("audit", "show", "last", "--gate", "evidence", "--ga"), ["--gate"]),
        (("audit", "show", "--gate", "evi"), ["evidence"]),
        (("audit", "show", "--gate", "=", "evi"), ["evidence"]),
        (
            (
                "audit",
                "show",
                "--gate=evi",
            ),
            ["--gate=evidence"],
        ),
        (("trajectories", "export", "--format", "o"), ["openai"]),
        (("completion", "z"), ["zsh"]),
        (("run", "--policy", ""), ["cheap", "balanced", "strong", "classic", ""]),
        (("chat", "--workspace", ""), [""]),
        (("run", "--", "--dry"), []),
        (("nope", "sh"), []),
    ],
)
def test_a_word_is_completed_by_what_may_stand_there(cli: Cli, words: Sequence[str], texts: Sequence[str]) -> None:
    assert list(offered(cli, *words)) == list(texts)


def test_sessions_are_offered_with_what_was_asked_and_only_where_one_is_taken(cli: Cli, home: Path) -> None:
    assert offered(cli, "audit", "show", "") == {}
    assert not home.exists()
    cli("run", "read a.txt")
    assert list(offered(cli, "audit", "show", "").values()) == ["the newest session", "read a.txt"]
    assert offered(cli, "audit", "show", "last", "") == {}
    assert len(offered(cli, "audit", "stats", "last", "")) == 2


def test_no_name_that_a_shell_could_read_otherwise_is_offered(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foregate.policy.source.load.SHIPPED", ("sound", "$(touch x)", "two words", "`x`", "a;b"))
    assert list(offered(cli, "run", "--policy", "")) == ["sound", ""]


def test_a_shell_nobody_knows_is_one_sentence(cli: Cli) -> None:
    code, out, err = cli("completion", "tcsh")
    assert (code, out, err) == (2, "", "foregate: there is no completion for `tcsh`; there is for bash, zsh, fish\n")


@pytest.fixture(params=SCRIPTS)
def shell(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> Iterator[AtTerminal]:
    """A shell whose person has put the script into its settings."""
    arguments, settings = SHELLS[request.param]
    if (program := shutil.which(request.param)) is None:
        pytest.skip(f"{request.param} is not installed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/foregate").write_text(f'#!/bin/sh\nexec {sys.executable} -Im foregate "$@"\n')
    (tmp_path / "bin/foregate").chmod(0o755)
    (folder / "mine.yaml").write_text("limits: {turns: 7}\n")
    (folder / "foregate").write_text("#!/bin/sh\ntouch ran\n")  # what a stranger may have put there
    (folder / "foregate").chmod(0o755)
    one = AtTerminal(folder, tmp_path, *arguments, program=(program,), path=f"{tmp_path / 'bin'}:")
    one.type(f"{settings}\r")
    one.until("ready> ")
    yield one
    one.close()


def test_tab_completes_commands_options_sessions_and_files(shell: AtTerminal, folder: Path) -> None:
    for typed, shown in (
        ("foregate aud\tli\t\r", "there are no sessions yet"),
        ("foregate --vers\t\r", "foregate 0."),
        ("foregate policy check min\t\r", "mine.yaml: usable"),
        ("foregate run --model reh\t'read mine.yaml'\r", "limits: {turns: 7}"),
        ("foregate audit verify 20\t\r", "verified: "),
        ("./foregate au\t\x15echo tab''bed\r", "tabbed"),
    ):
        shell.type(typed)
        shell.until(shown)
        shell.until("ready> ")
    assert not (folder / "ran").exists()
