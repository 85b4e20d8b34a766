"""Write the pages of the policy's keys and of the configuration's from the comments of their default files, the schema
of a policy file for editors, and the compiled forms of the files that come with Foregate."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from foregate.policy.source.editor_schema import build_editor_schema
from foregate.policy.source.load import SHIPPED
from foregate.policy.source.shipped import COMPILED, compile_files, read_defaults

FOLDER = Path(__file__).with_name("reference")
ROOT = Path(__file__).parent.parent
SCHEMA = ROOT / "policy" / "schema.json"
LONGEST = 60
"""Characters of a default value that a table shows."""
POLICY = """\
# The keys of the policy

Generated from the comments of `policy/default.yaml`, `policy/advanced.yaml` and `policy/lists/` by
`docs/make_policy.py`.

A policy file needs only the keys it changes ([write a policy](../how-to/write-a-policy.md)); a
[workspace](workspace-policy.md) may tighten some. Each line has a key of its section, its default and its meaning.
Scores and thresholds are thousandths, money is in micro-units, and 0 means unlimited where a key is a limit. `foregate
policy show --effective` prints every value in force and the file and line it is from.
"""
CONFIGURATION = """\
# The configuration of models and plan mode

Generated from the comments of `agent/planning/default.yaml` by `docs/make_policy.py`.

Your file needs only the keys it changes. Foregate reads the file that `--config` names, else `FOREGATE_CONFIG`, else
`foregate/config.yaml` in `XDG_CONFIG_HOME` (`~/.config`). The agent cannot write it. Keys of endpoints stand in the
environment. `foregate config show` prints what is in force, and `config check` names problems. The file is read as
strictly as a [policy](../how-to/write-a-policy.md), except that numbers may have fractions.
"""


def pages() -> dict[str, str]:
    """Return both pages by their file's name."""
    return {
        "policy.md": page(POLICY, ROOT / "policy"),
        "configuration.md": page(CONFIGURATION, ROOT / "agent" / "planning"),
    }


def page(head: str, folder: Path) -> str:
    """Return a page: a section for each key at the top, a row for each key that has a comment of its own."""
    defaults = read_defaults(folder, decimals=True)
    data = defaults.values
    found = {tuple(key.split(".")): said for key, said in defaults.comments.items()}
    comments = {path: said for path, said in found.items() if not path[-1].isdigit()}
    parts = [head]
    for top in data:
        parts.append(f"## `{top}`\n")
        below = [path for path in comments if path[0] == top and len(path) > 1]
        if (top,) in comments:
            parts.append(comments[(top,)] + "\n")
        rows = [path for path in below if not any(len(p) > len(path) and p[: len(path)] == path for p in below)]
        if rows:
            parts += lines(comments, rows, data)
        elif not isinstance(data[top], dict) or not data[top]:
            parts.append(f"Default: {shown(data[top])}")
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def lines(comments: dict[tuple[str, ...], str], rows: Sequence[tuple[str, ...]], data: object) -> Iterator[str]:
    """Yield a line for each key: its name, default and comment, behind a line for the mapping it stands in."""
    over: tuple[str, ...] = ()
    for path in rows:
        if len(path) > 2 and path[:-1] != over and path[:-1] in comments:
            over = path[:-1]
            yield f"- `{'.'.join(over[1:])}`: {comments[over]}"
        depth = "  " if path[:-1] == over else ""
        name = path[-1] if depth else ".".join(path[1:])
        yield f"{depth}- `{name}` {shown(value_at(data, path))}: {comments[path]}"


def value_at(data: object, path: tuple[str, ...]) -> object:
    """Return the value of a key."""
    for key in path:
        assert isinstance(data, dict)
        data = data[key]
    return data


def shown(value: object) -> str:
    """Return a default as code, or what it is where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= LONGEST:
        return f"`{text}`"
    return "`[...]`" if isinstance(value, list) else "`{...}`"


def schema() -> str:
    """Return the text of the schema for editors."""
    return json.dumps(build_editor_schema(), ensure_ascii=False, indent=1) + "\n"


def compiled() -> dict[Path, bytes]:
    """Return the compiled forms by their files."""
    policies, planning = ROOT / "policy", ROOT / "agent" / "planning"
    return {
        policies / COMPILED: compile_files(policies, [f"{name}.yaml" for name in SHIPPED]),
        planning / COMPILED: compile_files(planning, decimals=True),
    }


if __name__ == "__main__":
    for file, made in compiled().items():
        file.write_bytes(made)
    for name, text in pages().items():
        FOLDER.joinpath(name).write_text(text, "utf-8")
    SCHEMA.write_text(schema(), "utf-8")
