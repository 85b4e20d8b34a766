"""Which commands only observe: listed programs with listed options, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.commands_section import CommandEntry
from foregate.policy.risk.commands import effect_of_command, find_operands, is_observation
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_call import Command
from foregate.schemas.tool_spec import Effect

POLICY = default_policy()


def effect(*argv: str) -> Effect:
    return effect_of_command(Command(tuple(argv)), POLICY)


@pytest.mark.parametrize(
    "line",
    [
        "pwd",
        "ls",
        "ls -la src",
        "cat a.txt b.txt",
        "cat -",
        "head -n 5 a.txt",
        "head -n5 a.txt",
        "tail -c 10 a",
        "wc -l a",
        "grep -n -i foo src/a.py",
        "grep -e -x file",
        "cat -- -n",
        "echo hello world",
        "date -u",
        "true",
        "head -20 a.txt",
        "tail -5 a.txt",
        "sort -n -k 2 a.txt",
        "cut -d , -f 1 a.csv",
        "find . -type f -name *.py -maxdepth 3",
        "sha256sum a.txt",
        "which python3",
        "cat -- -weird",
        "grep -- -n a.txt",
        "find -- . -type f",
        "find . -size +5k",
        "tail +5 a.txt",
        "tail -- +5f",
        "head +page.svelte",
        "pwd --",
    ],
)
def test_a_listed_program_with_listed_options_observes(line: str) -> None:
    assert effect(*line.split(" ")) is Effect.OBSERVATION


@pytest.mark.parametrize(
    "argv",
    [
        ["rm", "-rf", "x"],
        ["find", ".", "-delete"],
        ["env", "rm", "x"],
        ["git", "branch", "-D", "main"],
        ["sed", "-i", "s/a/b/", "x"],
        ["./ls"],
        ["/tmp/ls"],
        ["/bin/ls"],
        ["ls/"],
        ["LS"],
        [""],
        ["cat a; rm b"],
        ["cat", "a;", "rm", "b"],
        ["cat", "a", ";", "rm", "b"],
        ["cat", "a", "|", "sh"],
        ["cat", "a", ">", "b"],
        ["cat", "a", ">b"],
        ["echo", "$(rm", "b)"],
        ["echo", "`rm b`"],
        ["echo", "x\nrm y"],
        ["cat", "a\0b"],
        ["date", "-s", "now"],
        ["date", "010100002030"],
        ["pwd", "x"],
        ["pwd", "--", "x"],
        ["ls", "-lZ"],
        ["ls", "-l", "--unknown"],
        ["grep", "-nr", "x"],
        ["grep", "-f", "x", "y"],
        ["grep", "--file=x", "y"],
        ["head", "-n"],
        ["head", "-n", ";"],
        ["head", "-nfive", "x"],
        ["head", "-q5", "x"],
        ["head", "--lines=5", "x"],
        ["tail", "-f", "x"],
        ["head", "-2x", "x"],
        ["head", "-٢", "x"],
        ["cat", "-5", "x"],
        ["sort", "-o", "a", "b"],
        ["sort", "-oa", "b"],
        ["sort", "--compress-program=sh", "b"],
        ["find", ".", "-exec", "rm", "{}", ";"],
        ["find", ".", "-name", "x", "-fprint", "y"],
        ["find", ".", "-newer", "-delete"],
        ["sha256sum", "-c", "x"],
        ["sh", "-c", "ls"],
        ["find", "--", ".", "-exec", "touch", "x", "{}", "+"],
        ["find", "--", ".", "-name", "x", "-delete"],
        ["find", "--", "-delete"],
        ["find", "--", "(", "-delete", ")"],
        ["find", "--", "!", "-delete"],
        ["find", "--", ".", ",", "-fprint", "x"],
        ["find", "--", "--", "."],
        ["find", ".", "-name", "--", "-delete"],
        ["tail", "+5f", "a.txt"],
        ["tail", "+f", "a.txt"],
        ["tail", "+5lf", "a.txt"],
        ["tail", "-5f", "a.txt"],
        ["sort", "--outp", "a", "b"],
        ["sort", "--comp=sh", "b"],
        ["sort", "-ro", "a", "b"],
        ["sort", "-noa", "b"],
        ["sort", "-t", "--", "-o", "a", "b"],
        ["sort", "-T", "d", "a"],
        ["wc", "--files0-from=a"],
        ["du", "--files0-from", "a"],
        ["file", "-C", "-m", "a"],
        ["date", "--", "01010000"],
    ],
)
def test_everything_else_is_a_change(argv: list[str]) -> None:
    assert effect(*argv) is Effect.EXECUTE


@pytest.mark.parametrize(
    "command", [Command(), Command(("ls",), problem="?"), Command(("ls",), shell="ls"), Command(shell="ls")]
)
def test_a_shell_line_or_a_command_without_a_shape_is_a_change(command: Command) -> None:
    assert effect_of_command(command, POLICY) is Effect.EXECUTE


GIT = CommandEntry(options=("--stat", "--"), valued=("--max-count", "-n"), subcommands=("log", "status"))


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("log", True),
        ("log --stat src", True),
        ("log --max-count=5", True),
        ("log --max-count 5 -n3", True),
        ("log -- src", True),
        ("status log push", True),
        ("push", False),
        ("push log", False),
        ("--stat", False),
        ("", False),
        ("-- log", False),
        ("log --output=x", False),
        ("log --stat=5", False),
        ("branch -D main", False),
        ("log -D", False),
    ],
)
def test_a_program_with_subcommands_needs_a_listed_one_first(line: str, answer: bool) -> None:
    assert is_observation(GIT, line.split()) is answer


FD = CommandEntry(options=("-r",), valued=("-e",), beneath=("-r",))


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("-- a b", True),
        ("-- -r a", True),
        ("-- -x", False),
        ("a -- -x b", False),
        ("-- -e -x", True),
        ("-- -- a", False),
    ],
)
def test_without_a_listed_end_of_options_what_follows_it_still_counts_as_options(line: str, answer: bool) -> None:
    assert is_observation(FD, line.split()) is answer
    assert is_observation(FD.model_copy(update={"options": ("-r", "--")}), line.split())


def test_options_behind_an_end_of_options_nobody_listed_name_nothing_to_search() -> None:
    listed = POLICY.commands.model_copy(update={"read_only": {"fd": FD}})
    policy = POLICY.model_copy(update={"commands": listed})
    assert find_operands(Command(("fd", "--", "-r", "-e", "x", "a")), policy) == ["a"]
    assert find_operands(Command(("grep", "--", "-r", "x")), POLICY) == ["-r", "x"]


def test_a_path_is_never_a_listed_program_even_where_somebody_listed_it() -> None:
    listed = POLICY.commands.model_copy(update={"read_only": {"./ls": POLICY.commands.read_only["ls"]}})
    assert effect_of_command(Command(("./ls",)), POLICY.model_copy(update={"commands": listed})) is Effect.EXECUTE


@given(st.lists(st.text(max_size=8), min_size=1, max_size=6))
def test_an_unlisted_option_is_never_an_observation(words: list[str]) -> None:
    assert effect("ls", *words, "--not-listed") is Effect.EXECUTE or "--" in words
