"""What other agents write is sound here: each of their tools, with the options they know, is one of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.planning.configuration import default_configuration
from foregate.agent.planning.reader import read_plan
from foregate.agent.planning.validator import validate
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.workspace.local import LocalWorkspace
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_spec import build_catalogue

CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("file_read", {"path": "a.txt", "max_bytes": 1_048_576}, "read_file"),
    ("read_file", {"file_path": "a.txt"}, "read_file"),
    ("file_write", {"path": "new/b.txt", "content": "x", "create_dirs": True}, "write_file"),
    ("file_patch", {"path": "a.txt", "unified_diff": "@@ -1 +1 @@\n-a\n+b\n"}, "edit_file"),
    ("edit_file", {"file_path": "a.txt", "old_text": "a", "new_text": "b"}, "edit_file"),
    ("fs_list", {"glob": "**/*.txt", "max_results": 5000}, "list_files"),
    ("grep", {"pattern": "a|b", "glob": "*.txt", "case_sensitive": False, "max_results": 5}, "search_text"),
    ("search_code", {"query": "a"}, "search_text"),
    ("git_status", {}, "git_status"),
    ("git_diff", {"rev": "HEAD", "paths": ["a.txt"]}, "git_diff"),
    ("git_add", {"paths": ["a.txt"]}, "git_add"),
    ("git_commit", {"message": "x", "signoff": True}, "git_commit"),
    ("shell_exec", {"cmd": "ls", "cwd": ".", "timeout_ms": 600_000}, "run_shell"),
    ("proc_list", {"filter": "python", "limit": 50}, "list_processes"),
    ("curl", {"method": "GET", "url": "https://example.org/", "timeout_ms": 15_000}, "http_request"),
    ("run_test", {"cwd": ".", "timeout_ms": 1000}, "run_tests"),
    ("run_build", {"cwd": "."}, "run_build"),
    ("analyze_error", {"text": "a.txt:1"}, "analyze_error"),
]
SHAPES = [
    lambda name, args: {"tasks": [{"id": 1, "reason": "r", "calls": [{"tool": name, "arguments": args}]}]},
    lambda name, args: {
        "steps": [
            {
                "step_number": 1,
                "description": "r",
                "actions": [{"tool_name": name, "arguments": args, "description": "d"}],
                "depends_on": None,
            }
        ]
    },
    lambda name, args: {"steps": [{"tool": name, "args": args, "description": "r"}]},
    lambda name, args: [{"tool": name, "args": args, "description": "r"}],
    lambda name, args: {"tasks": [{"id": 1, "reason": "r", "calls": [{"tool": name, "args": json.dumps(args)}]}]},
]


@pytest.mark.parametrize("shape", SHAPES, ids=["tasks", "steps", "short", "list", "text"])
@pytest.mark.parametrize(("name", "args", "ours"), CALLS, ids=[name for name, _, _ in CALLS])
def test_a_call_under_a_foreign_name_fits_our_tool_in_every_shape(
    tmp_path: Path, name: str, args: dict[str, Any], ours: str, shape: Any
) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    workspace = LocalWorkspace(tmp_path)
    catalogue = build_catalogue([tool.spec for tool in builtin_tools(workspace, default_policy())])
    reading = read_plan(json.dumps(shape(name, args)), query="q", catalogue=catalogue)
    assert reading.plan is not None
    assert reading.defects == ()
    (call,) = reading.plan.tasks[0].calls
    assert call.tool == ours
    validation = validate(reading.plan, catalogue, workspace, default_configuration())
    assert (validation.defects, validation.warnings) == ((), ())
    renamed = {*args, name} - {*call.arguments, call.tool}
    said = " ".join(reading.notes)
    assert all(f"`{one}`" in said for one in renamed), said
