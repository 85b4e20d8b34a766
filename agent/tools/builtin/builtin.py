"""The tools Foregate brings along."""

from __future__ import annotations

from pathlib import Path

from foregate.agent.tools.builtin import commands, files, folders, git, http, looking
from foregate.agent.tools.builtin.commands import list_processes, run_build, run_tests
from foregate.agent.tools.builtin.git_push import git_push
from foregate.agent.tools.builtin.looking import analyze_error
from foregate.agent.tools.builtin.memory import Memory, recall, remember
from foregate.agent.tools.builtin.replacing import render_template, search_replace
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy


def builtin_tools(workspace: Workspace, policy: Policy, *, memory: Path | None = None) -> list[Tool]:
    """Return the built-in tools over a workspace; the memory tools only where there is a file for them."""
    tools = [
        files.read_file(workspace, policy),
        looking.list_files(workspace, policy),
        looking.search_text(workspace, policy),
        analyze_error(workspace, policy),
        list_processes(workspace, policy),
        files.write_file(workspace, policy),
        files.edit_file(workspace, policy),
        search_replace(workspace, policy),
        render_template(workspace, policy),
        folders.create_directory(workspace, policy),
        folders.delete_path(workspace, policy),
        folders.move_path(workspace, policy),
        commands.run_command(workspace, policy),
        commands.run_shell(workspace, policy),
        run_tests(workspace, policy),
        run_build(workspace, policy),
        git.git_status(workspace, policy),
        git.git_diff(workspace, policy),
        git.git_log(workspace, policy),
        git.git_add(workspace, policy),
        git.git_commit(workspace, policy),
        git_push(workspace, policy),
        http.http_request(policy),
    ]
    if memory is not None:
        kept = Memory(memory, policy)
        tools += [remember(kept, policy), recall(kept, policy)]
    return tools
