"""Write docs/reference/command-line.md from the commands themselves: arguments, options and their help."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from foregate.cli.commands.app import app
from foregate.cli.terminal.exit_codes import STATUS

BAR = "\\|"
"""A bar in a cell of a table."""
PAGE = Path(__file__).with_name("reference") / "command-line.md"
HEAD = """\
# The command line

Generated from the commands by `docs/make_command_line.py`. The [chat](chat.md) has a page of its own.

`SESSION` is a session's name as `foregate audit list` shows it, a beginning that only one name has, or `last`. A
command that fails prints one sentence on standard error that says what to do.

## Environment

| variable | meaning |
|---|---|
| `FOREGATE_HOME` | the folder of the log, before-images, memory, history and pins of MCP tools; \
default `$XDG_DATA_HOME/foregate`, else `~/.local/share/foregate`. Foregate creates it for its owner only and refuses \
one that others may write to |
| `OPENAI_BASE_URL`, `OPENAI_API_KEY` | the address of the model's endpoint, without which none is asked, and its key |
| `FOREGATE_MODEL` | the model's name; `--model` beats it |
| `FOREGATE_API` | how the endpoint is asked: `chat` (Chat Completions, without it) or `responses` |
| `FOREGATE_POLICY` | a YAML file over the default policy, or `classic`; `--policy` beats it |
| `FOREGATE_CONFIG` | a YAML file over the default [configuration](configuration.md); `--config` beats it |
| `FOREGATE_MCP` | a JSON file that lists MCP servers; `--mcp` beats it; \
default `$XDG_CONFIG_HOME/foregate/mcp.json` where there is one |
| `FOREGATE_RUNTIME_TOKEN`, `FOREGATE_RUNTIME_TOKEN_FILE` | the token of a [runtime](runtime.md), or a file with it |
| `FOREGATE_LOG` | `debug`, `info`, `warning` or `error` writes diagnostics as lines of JSON to standard \
error; from `info` on a line for each call that is held or refused ([telemetry](telemetry.md#diagnostics)) |
| `OTEL_EXPORTER_OTLP_ENDPOINT` | exports traces and metrics there ([telemetry](telemetry.md)) |

Without an endpoint the rehearsal model answers. It is a fixed program and no language model. It understands a few plain
requests and makes real tool calls in the real workspace. `--model rehearsal` asks for it where there is an endpoint.

## Help and completion

`foregate help COMMAND`, and `-h` or `--help` after any command, show what it does and takes. A shell completes
commands, options, sessions and files when its settings have the line of its own:

| shell | line | where |
|---|---|---|
| bash | `eval "$(foregate completion bash)"` | `~/.bashrc` |
| zsh | `eval "$(foregate completion zsh)"` | `~/.zshrc`, after `compinit` |
| fish | `foregate completion fish \\| source` | `~/.config/fish/config.fish` |

## Output

With `--json` a command that lists prints one object a line, every other one a single object. Where standard output is
closed or full, a command says so in one sentence. A task that somebody stops reading goes on to its end all the same,
and its exit code tells how it ended.

## Exit codes

| code | meaning |
|---|---|
| 0 | the task was completed, or the command did what it says |
| 1 | an error, also where standard output could not be written |
| 2 | the command line, a policy file or the workspace cannot be used as given, or no judged call is recorded |
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


def page() -> str:
    """Return the whole page."""
    assert set(STATUS.values()) <= {0, *CODES}
    rows = [f"| {code} | {meaning} |" for code, meaning in CODES.items()]
    found = sections(typer.main.get_command(app), "foregate")
    return HEAD + "\n".join(rows) + "\n\n" + "\n".join(found).rstrip() + "\n"


def sections(command: Any, name: str) -> Iterator[str]:
    """Yield the section of a command, then those of the commands below it."""
    children = getattr(command, "commands", {})
    if name != "foregate":
        context = command.make_context(name, [], resilient_parsing=True)
        parameters = [parameter for parameter in command.params if parameter.name != "help"]
        arguments = [spell_argument(one, context) for one in parameters if one.param_type_name == "argument"]
        options = ["[OPTIONS]"] if any(one.param_type_name == "option" for one in parameters) else []
        yield f"## `{name}`\n"
        yield " ".join((command.help or "").split()) + "\n"
        yield "```\n" + " ".join([name, *options, *arguments, *(["COMMAND"] if children else [])]) + "\n```\n"
        if parameters:
            rows = [row(parameter, context) for parameter in parameters]
            yield "| argument or option | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"
    for child, below in children.items():
        yield from sections(below, f"{name} {child}")


def spell_argument(argument: Any, context: Any) -> str:
    """Return an argument as a usage line has it: in brackets where it may be left out, with dots where it repeats."""
    if " " in argument.metavar:  # it says itself what may stand there
        return str(argument.metavar)
    (spelt,) = argument.get_usage_pieces(context)
    return str(spelt).replace("{", "").replace("}", "")


def row(parameter: Any, context: Any) -> str:
    """Return the row of an argument or option, as `--help` words it."""
    spelt, about = parameter.get_help_record(context)
    if parameter.param_type_name == "argument":
        spelt = spell_argument(parameter, context)
    about = about.replace("  [required]", "")
    return f"| `{spelt.replace('|', BAR)}` | {about.replace('|', BAR)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
