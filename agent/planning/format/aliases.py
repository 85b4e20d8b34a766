"""The table of foreign names: what other agents call our tools and their parameters."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from foregate.schemas.strict_json import Json, get_object
from foregate.schemas.tool_spec import Catalogue

TOOLS: Mapping[str, str] = {
    "file_read": "read_file",
    "file_write": "write_file",
    "create_file": "write_file",
    "file_patch": "edit_file",
    "fs_list": "list_files",
    "list_directory": "list_files",
    "delete_file": "delete_path",
    "move_file": "move_path",
    "grep": "search_text",
    "search_code": "search_text",
    "shell_exec": "run_shell",
    "proc_list": "list_processes",
    "run_test": "run_tests",
    "curl": "http_request",
}
"""Foreign names of tools, each with ours."""

PARAMETERS: Mapping[str, Mapping[str, str]] = {
    "read_file": {"file_path": "path"},
    "write_file": {"file_path": "path", "text": "content"},
    "edit_file": {
        "file_path": "path",
        "old_text": "old",
        "new_text": "new",
        "old_string": "old",
        "new_string": "new",
        "unified_diff": "diff",
    },
    "list_files": {"directory": "path", "dir_path": "path"},
    "delete_path": {"file_path": "path"},
    "search_text": {"query": "pattern"},
    "run_shell": {"cmd": "command"},
}
"""Foreign names of a tool's parameters, under our name of the tool."""

MEANT: Mapping[str, Mapping[str, Json]] = {
    "fs_list": {"recursive": True},
    "grep": {"regex": True},
}
"""What a foreign tool does without being told to, and ours only when told."""


def keys_of(shape: type[Struct], **foreign: tuple[str, ...]) -> Mapping[str, str]:
    """Return our name of every key of a shape, by itself and by the names others use for it."""
    theirs = {name: ours for ours, every in foreign.items() for name in every}
    return {name: name for name in shape.__struct_fields__} | theirs


def find_tool_name(name: str, catalogue: Catalogue | None) -> str:
    """Return our name for a tool; a name `catalogue` has is never another's."""
    return name if catalogue is not None and name in catalogue else TOOLS.get(name, name)


def rename_arguments(
    named: str, tool: str, arguments: Mapping[str, Json], catalogue: Catalogue | None
) -> tuple[dict[str, Json], tuple[str, ...]]:
    """Return the arguments under our names, and a sentence for each that was renamed or added.

    `named` is the tool as the plan names it. A name stays where the tool has such a parameter, or where ours is given
    as well: what is meant is then not for us to say.
    """
    spec = catalogue.get(tool) if catalogue is not None else None
    if spec is not None and spec.provenance != "builtin":
        return dict(arguments), ()
    known = get_object(spec.parameters, "properties") if spec is not None else {}
    ours = PARAMETERS.get(tool, {})
    found: dict[str, Json] = {}
    said: list[str] = []
    for name, value in arguments.items():
        to = ours.get(name, name)
        if to != name and name not in known and to not in arguments and to not in found:
            said.append(f"the parameter `{name}` of `{tool}` is `{to}`")
            name = to
        found[name] = value
    for name, value in MEANT.get(named, {}).items() if named != tool else ():
        if name not in found:
            found[name] = value
            said.append(f"`{named}` means `{tool}` with `{name}` true")
    return found, tuple(said)
