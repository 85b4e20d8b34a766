"""The tools Foregate brings along."""

from __future__ import annotations

from pathlib import Path

from foregate.agent.tools import commands, files, folders, git, git_push, http, looking, processes, project, replacing
from foregate.agent.tools.memory import Memory, recall, remember
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy

_LOOKERS = (files.read_file, looking.list_files, looking.search_text, looking.analyze_error, processes.list_processes)
_WRITERS = (files.write_file, files.edit_file, replacing.search_replace, replacing.render_template)
_MOVERS = (folders.create_directory, folders.delete_path, folders.move_path)
_RUNNERS = (commands.run_command, commands.run_shell, project.run_tests, project.run_build)
_GIT = (git.git_status, git.git_diff, git.git_log, git.git_add, git.git_commit, git_push.git_push)
_MAKERS = (*_LOOKERS, *_WRITERS, *_MOVERS, *_RUNNERS, *_GIT)


def builtin_tools(workspace: Workspace, policy: Policy, *, memory: Path | None = None) -> list[Tool]:
    """Return the built-in tools over a workspace; the memory tools only where there is a file for them."""
    tools = [*(make(workspace, policy) for make in _MAKERS), http.http_request(policy)]
    if memory is not None:
        kept = Memory(memory, policy)
        tools += [remember(kept, policy), recall(kept, policy)]
    return tools
