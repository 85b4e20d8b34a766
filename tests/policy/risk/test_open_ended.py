"""Which leading words leave open what a command would run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.risk.commands import is_left_open, is_open_ended
from foregate.policy.source.load import default_policy

POLICY = default_policy()
LISTED = POLICY.commands.open_ended
WORDS = st.lists(st.sampled_from(["a", "b", "c", "-x", "-y", "/bin/a", "A"]), max_size=5)


@pytest.mark.parametrize(
    "line",
    [
        "python3",
        "python3.12",
        "/usr/bin/python3",
        "PYTHON3",
        "python3 -m",
        "python3 -c",
        "python3 -c pass",
        "python3 -W ignore",
        "python3 -",
        "python3 -u -m timeit",
        "python -m pip",
        "node -e x",
        "node --require x y",
        "deno",
        "deno eval x",
        "deno run -A",
        "ruby -e x",
        "perl -e x",
        "php -r x",
        "lua5.4",
        "Rscript -e x",
        "sh",
        "sh -c ls",
        "bash -c ls",
        "zsh",
        "fish -c ls",
        "busybox sh",
        "awk -f x",
        "env",
        "env python3 tools/x.py",
        "sudo pytest",
        "xargs rm",
        "timeout 60 pytest",
        "ssh host ls",
        "docker exec x ls",
        "podman run x",
        "docker",
        "find . -name x",
        "make",
        "make test",
        "npx",
        "npx -c x",
        "npm",
        "npm run",
        "npm exec x",
        "npm --prefix x test",
        "uvx",
        "uv run x",
        "pipx run x",
        "pip install x",
        "cargo",
        "git",
        "git -c alias.x=!ls",
        "git --exec-path=x status",
        "git --config-env=a=b x",
        "git rebase",
        "git fetch origin",
        "git submodule foreach ls",
    ],
)
def test_interpreters_wrappers_runners_and_settings_of_git_name_nothing_that_runs(line: str) -> None:
    assert is_open_ended(line.split(), POLICY)


@pytest.mark.parametrize(
    "line",
    [
        "python3 -m pytest",
        "python3 -u -m pytest -q",
        "python3 tools/x.py",
        "node tools/x.js",
        "deno run x.ts",
        "sh build.sh",
        "bash tools/x.sh -c",
        "awk {print}",
        "npx jest",
        "npm test",
        "npm run build",
        "git status",
        "git commit -m",
        "pytest",
        "ruff check",
        "vitest",
        "rm",
        "tools/env.sh",
    ],
)
def test_a_script_module_or_subcommand_names_what_runs_and_so_does_any_other_program(line: str) -> None:
    assert not is_open_ended(line.split(), POLICY)


def test_words_of_which_there_are_none_leave_everything_open() -> None:
    assert is_open_ended([], POLICY)


def test_every_program_listed_with_a_further_word_is_also_listed_alone() -> None:
    """Else an option and its value in between would hide the further word."""
    names = [[part for part in entry.split() if not part.startswith("-")] for entry in LISTED]
    alone = {tuple(found[:1]) for found in names if len(found) == 1 or found[1:] == ["..."]}
    assert not [found for found in names if tuple(found[:1]) not in alone]


def test_every_program_known_to_run_others_is_listed() -> None:
    assert {entry.split()[0] for entry in POLICY.commands.wrappers} <= {entry.split()[0] for entry in LISTED}


def test_with_an_empty_list_no_words_leave_anything_open() -> None:
    commands = POLICY.commands.model_copy(update={"open_ended": ()})
    assert not is_open_ended(["env"], POLICY.model_copy(update={"commands": commands}))


@given(st.lists(st.sampled_from(["a", "a b", "a -x", "a b ...", "a ...", "b -x -y"]), max_size=4), WORDS)
def test_a_further_entry_never_makes_fewer_words_open(entries: list[str], words: list[str]) -> None:
    """So a workspace's own file can only tighten."""
    answers = [any(is_left_open(entry, words) for entry in entries[:count]) for count in range(len(entries) + 1)]
    assert answers == sorted(answers)


@given(WORDS, WORDS)
def test_words_that_may_yet_go_on_to_open_ones_are_open_or_name_another_command(
    words: list[str], more: list[str]
) -> None:
    """What an item covers goes on from its words, so where they are not open, nothing they go on to may be."""
    if not is_left_open("a b ...", words):
        assert not is_left_open("a b ...", [*words, *more])
