"""Write docs/reference/command-line.md from the commands themselves: arguments, options and their help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from foregate.cli.app import app
from foregate.views.terminal.exit_codes import STATUS

PAGE = Path(__file__).with_name("reference") / "command-line.md"
HEAD = """\
# The command line

Generated from the commands by `docs/make_command_line.py`. The [chat](chat.md) has a page of its own.

`SESSION` is a name as `foregate audit list` shows it, a beginning that only one name has, or `last`. A command that
fails prints one sentence on standard error that says what to do. `foregate help COMMAND` and `--help` show what a
command does.

## Environment

- `FOREGATE_HOME`: the folder of log, before-images, memory, history and pins; default `$XDG_DATA_HOME/foregate`, else
  `~/.local/share/foregate`. Foregate creates it for its owner only, and refuses one that others may write to.
- `OPENAI_BASE_URL`, `OPENAI_API_KEY`: the model's endpoint and its key; without an endpoint none is asked.
- `FOREGATE_MODEL`: the model's name; `--model` beats it.
- `FOREGATE_API`: `chat` (Chat Completions, the default) or `responses`.
- `FOREGATE_POLICY`: a YAML file over the default policy, or a shipped name; `--policy` beats it.
- `FOREGATE_CONFIG`: a YAML file over the default [configuration](configuration.md); `--config` beats it.
- `FOREGATE_MCP`: a JSON file that lists MCP servers; `--mcp` beats it; default `$XDG_CONFIG_HOME/foregate/mcp.json`.
- `FOREGATE_RUNTIME_TOKEN`, `FOREGATE_RUNTIME_TOKEN_FILE`: the token of a [runtime](runtime.md), or a file with it.
- `FOREGATE_LOG`: `debug`, `info`, `warning` or `error` writes [diagnostics](telemetry.md#diagnostics).
- `OTEL_EXPORTER_OTLP_ENDPOINT`: exports traces and metrics there ([telemetry](telemetry.md)).

Without an endpoint the rehearsal model answers, a fixed program that understands a few plain requests and makes real
tool calls. `--model rehearsal` asks for it where there is an endpoint.

## Completion

Put the line of your shell into its settings:

- bash, `~/.bashrc`: `eval "$(foregate completion bash)"`
- zsh, `~/.zshrc` after `compinit`: `eval "$(foregate completion zsh)"`
- fish, `~/.config/fish/config.fish`: `foregate completion fish | source`

## Output

With `--json` a command that lists prints one object a line, every other one a single object. A task whose output nobody
reads any more continues, and its exit code tells how it ended.

## Exit codes

- 0: the task was completed, or the command did what it says
- 1: an error, also where standard output could not be written
- 2: the command line, a policy file or the workspace cannot be used, or no judged call is recorded
"""
CODES = {
    3: "the task is `blocked`",
    4: "the task is `budget_exhausted`",
    5: "the task `failed`: a wrong key, an unknown model, an endpoint that cannot be reached",
    6: "the task `needs_input`: its answer is a question",
    7: "the task is `awaiting_approval`",
    8: "a log does not verify",
    9: "another live process holds the session",
    10: "a plan is `paused`",
    130: "the task was `cancelled`, or the command was interrupted",
}


SHARED = 2
"""So many commands have an argument or option that is described once for all."""
GROUPS = {
    "model options": "--model --policy --config --dialect --mcp --runtime --insecure-runtime --tools",
    "decision filters": (
        "--gate --code --verdict --severity --tool --target --rule --key --policy-hash --approver --origin --risk"
    ),
    "file options": "--limit --csv --parquet --overwrite --json",
}
"""Names for options that come together."""
SHARED_HEAD = """\
## What commands share

A command lists these by name, behind *shared*; some come in groups:

"""


def page() -> str:
    """Return the whole page."""
    assert set(STATUS.values()) <= {0, *CODES}
    codes = "\n".join(f"- {code}: {meaning}" for code, meaning in CODES.items())
    command = typer.main.get_command(app)
    counted = Counter(
        item for one, _, level in walk(command, "foregate") if level for item in describe_all(one).items()
    )
    chosen = {name: line for (name, line), count in reversed(counted.most_common()) if count >= SHARED}
    shared = set(chosen.values())
    groups = "\n".join(
        f"- *{name}*: " + ", ".join(f"`{one}`" for one in members.split()) for name, members in GROUPS.items()
    )
    listed = "\n".join(line for _, line in counted if line in shared)
    parts = [HEAD + codes, SHARED_HEAD + groups + "\n\nEach of them:\n\n" + listed]
    parts += [section(one, name, level, shared) for one, name, level in walk(command, "foregate") if level]
    return "\n\n".join(parts) + "\n"


def walk(command: Any, name: str, level: int = 0) -> Iterator[tuple[Any, str, int]]:
    """Yield a command and those below it, each with its whole name and how deep it is."""
    yield command, name, level
    for child, below in getattr(command, "commands", {}).items():
        yield from walk(below, f"{name} {child}", level + 1)


def section(command: Any, name: str, level: int, shared: set[str]) -> str:
    """Return the section of a command: what it does, its arguments and options, the shared ones by name only."""
    found = describe_all(command)
    lines = [line for line in found.values() if line not in shared]
    if others := [spelt for spelt, line in found.items() if line in shared]:
        lines.append("- shared: " + ", ".join(name_groups(others)))
    title = "#" * (level + 1) + f" `{name}`\n\n" + " ".join((command.help or "").split())
    return title + ("\n\n" + "\n".join(lines) if lines else "")


def name_groups(options: Sequence[str]) -> Iterator[str]:
    """Yield each option as code, in place of all options of a group the group's name."""
    whole = {name: members.split() for name, members in GROUPS.items() if {*members.split()} <= set(options)}
    yield from (f"*{name}*" for name in whole)
    yield from (f"`{one}`" for one in options if not any(one in members for members in whole.values()))


def describe_all(command: Any) -> dict[str, str]:
    """Return the line of each argument and option of a command, by what stands in a command line."""
    context = command.make_context("", [], resilient_parsing=True)
    found = {}
    for one in command.params:
        spelt, about = one.get_help_record(context)
        if one.param_type_name == "argument":
            name = spelt = spell_argument(one, context)
        else:
            name = one.opts[0]
        if one.name != "help":
            found[name] = f"- `{spelt}`: {about.replace('  [required]', '')}"
    return found


def spell_argument(argument: Any, context: Any) -> str:
    """Return an argument as a usage line has it: in brackets where it may be left out, with dots where it repeats."""
    if " " in argument.metavar:  # it says itself what may stand there
        return str(argument.metavar)
    (spelt,) = argument.get_usage_pieces(context)
    return str(spelt).replace("{", "").replace("}", "")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
