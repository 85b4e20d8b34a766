"""Commands that are said only to read and could do more are named, and those that read are not."""

from __future__ import annotations

import pytest

from foregate.policy.source.layers import build_layer
from foregate.tuning.lint import list_layer_remarks


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("less: {options: []}", "`less` starts programs"),
        ("more: {options: [-d]}", "`more` starts programs"),
        ("ldd: {options: []}", "`ldd` may start the program"),
        ("uniq: {options: [-c]}", "`uniq` with more operands than 1 changes something"),
        ("hostname: {options: []}", "`hostname` with operands changes something"),
        ("sort: {options: [-o]}", "`sort -o` changes something"),
        ("sort: {options: [-no]}", "`sort -no` changes something"),
        ("sort: {valued: [--outp]}", "`sort --outp` changes something"),
        ("tree: {options: [-o]}", "`tree -o` changes something"),
        ("find: {options: [-delete]}", "that `find -delete` changes nothing is on your word alone"),
        ("git: {options: [], valued: [-c], subcommands: [log]}", "`git log -c` runs what it is given"),
        ("git: {options: [], subcommands: [push, fetch]}", "`git fetch` may go on to run anything"),
        ("git: {options: [], subcommands: [status, push]}", "`git push` may go on to run anything"),
        ("git: {options: [], subcommands: [branch]}", "`git branch` with operands changes something"),
        ("git: {options: [--output], subcommands: [diff]}", "`git diff --output` changes something"),
        ("git log: {options: []}", "no program is called `git log`"),
        ("sed: {options: [-n]}", "`sed` may go on to run anything"),
        ("tee: {options: []}", "that `tee` changes nothing is on your word alone"),
        ("curl: {options: [-s]}", "it reaches beyond this machine, too"),
        ("date: {operands: true}", "say `operands: false`"),
        ("grep: {options: [-rn]}", "list it in `beneath` as well"),
    ],
)
def test_what_could_do_more_than_read_is_named(entry: str, says: str) -> None:
    assert any(says in said for said in say(entry)), say(entry)


@pytest.mark.parametrize(
    "entry",
    [
        "ls: {options: [-t]}",
        "grep: {options: [-o, --color=never]}",
        "grep: {options: [-rn], beneath: [-rn]}",
        "uniq: {options: [-c], operands: false}",
        "jq: {options: [-r]}",
        "diff: {options: [-u]}",
        "git: {options: [--oneline, -c], subcommands: [status, log, diff]}",
        "find: {options: [-print]}",
        "cat: null",
    ],
)
def test_nothing_is_said_of_what_reads(entry: str) -> None:
    assert say(entry) == []


def say(entry: str) -> list[str]:
    """What is said of a file with this entry of `commands.read_only`."""
    layer = build_layer("mine.yaml", "mine.yaml", f"commands:\n  read_only:\n    {entry}\n")
    return [said for _, _, said in list_layer_remarks(layer)]
