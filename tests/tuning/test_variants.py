"""A variant of a call does the same as the call: the commands are run, and the rest named."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from foregate.schemas.tool_call import ToolCall
from foregate.tuning.fuzzing import Variant, list_variants
from tests.forever import FOREVER

GIT = ToolCall.of("run_command", {"argv": ["git", "init", "-q", "made"]})
TOUCH = ToolCall.of("run_command", {"argv": ["touch", "a b", "it's"]})
PUSH = ToolCall.of("run_command", {"argv": ["publish", "push", "--force", "origin"]})
LINE = ToolCall.of("run_shell", {"command": "touch made twice"})
STARTED = [one for call in (TOUCH, LINE) for one in list_variants(call)]


def run_variant(variant: Variant, folder: Path, environment: dict[str, str]) -> None:
    """Run what a variant starts in a folder."""
    argv, line = variant.arguments.get("argv"), variant.arguments.get("command")
    command = [str(word) for word in argv] if isinstance(argv, list) else ["sh", "-c", str(line)]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=FOREVER)


@pytest.mark.parametrize("variant", STARTED, ids=lambda one: f"{one.tool}-{one.how}")
def test_a_command_written_otherwise_makes_the_same_files(variant: Variant, tmp_path: Path) -> None:
    run_variant(variant, tmp_path, dict(os.environ))
    made = {path.name for path in tmp_path.iterdir()} - {"nohup.out"}
    assert made in ({"a b", "it's"}, {"made", "twice"})


RECORD = """#!/bin/sh
printf '%s\\n' "$(basename "$0")" "$@" >> "$RECORDED"
"""


@pytest.mark.parametrize("variant", list_variants(PUSH), ids=lambda one: f"{one.tool}-{one.how}")
def test_a_program_is_started_with_the_same_words_however_that_is_written(variant: Variant, tmp_path: Path) -> None:
    (program := tmp_path / "publish").write_text(RECORD)
    program.chmod(0o755)
    written = tmp_path / "recorded"
    run_variant(variant, tmp_path, {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RECORDED": str(written)})
    assert written.read_text().split() == ["publish", "push", "--force", "origin"]


def test_an_alias_of_git_does_what_the_command_it_stands_for_does(tmp_path: Path) -> None:
    (alias,) = (one for one in list_variants(GIT) if one.how == "a git alias")
    run_variant(alias, tmp_path, dict(os.environ))
    assert (tmp_path / "made" / ".git").is_dir()


def test_quoting_wrappers_other_tools_and_unicode_are_all_among_them() -> None:
    found = {one.how for one in STARTED}
    assert {"quotes", "env", "sh -c", "base64", "Unicode escapes", "a variable", "eval", "Python"} <= found
    deleted = list_variants(ToolCall.of("delete_path", {"path": "a b"}))
    assert [dict(one.arguments) for one in deleted if one.how == "another tool"] == [
        {"argv": ["rm", "--", "a b"]},
        {"command": "rm -- 'a b'"},
    ]
    asked = list_variants(ToolCall.of("http_request", {"url": "https://a.example:8443/x?y=1"}))
    assert {"how": "Unicode", "url": "https://\uff41.\uff45\uff58\uff41\uff4d\uff50\uff4c\uff45:8443/x?y=1"} in [
        {"how": one.how, "url": one.arguments.get("url")} for one in asked
    ]


def test_a_call_that_cannot_be_read_and_a_tool_nobody_knows_have_none() -> None:
    assert list_variants(ToolCall.parse("run_command", "{")) == []
    assert list_variants(ToolCall.of("send", {"to": "bob"})) == []
    bad = list_variants(ToolCall.of("http_request", {"url": "http://[bad"}))
    assert {one.tool for one in bad} == {"run_command", "run_shell"}


def test_no_variant_is_the_call_itself() -> None:
    assert LINE.arguments not in [one.arguments for one in list_variants(LINE) if one.tool == "run_shell"]
