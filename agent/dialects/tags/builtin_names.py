"""What the dialects of tags know of the built-in tools by name: their services, and how arguments are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_FILES = "read_file list_files search_text analyze_error write_file edit_file search_replace render_template"
SERVICES: Mapping[str, Sequence[str]] = {
    "files": (*_FILES.split(" "), "create_directory", "delete_path", "move_path"),
    "git": ("git_status", "git_diff", "git_log", "git_add", "git_commit", "git_push"),
    "shell": ("run_command", "run_shell", "run_tests", "run_build", "list_processes"),
    "http": ("http_request",),
    "memory": ("remember", "recall"),
}
"""The built-in tools as services."""
SERVICE_OF: Mapping[str, str] = {tool: service for service, tools in SERVICES.items() for tool in tools}
COMMANDS: Mapping[str, Sequence[str]] = {"run_command": ("argv",), "run_tests": ("argv",), "run_build": ("argv",)}
"""Built-in tools that run a program, and the parameters that hold it."""
LINES = frozenset(("content", "old", "new", "diff", "message", "text", "body", "pattern", "replacement"))
"""Their parameters that are taken literally and may well have many lines."""
