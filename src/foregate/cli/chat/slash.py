"""The chat's own commands; none of them reaches the model."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from foregate.schemas.event_body import KnownOutcome
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.visible import make_visible
from foregate.views.terminal.nearest import suggest_nearest

OUTCOMES: Mapping[str, KnownOutcome] = {"done": "done", "not-done": "not_done"}
"""What /resolve takes of a call, and the outcome it is."""
MODES = ("direct", "plan", "auto")
"""What /mode takes: see the configuration's `mode`."""


class SlashCommand(Struct, frozen=True):
    """What a command means, what may follow it as /help writes it, and those of it that Tab completes."""

    meaning: str
    more: str = ""
    choices: tuple[str, ...] = ()


_WHO_PLANS = "who plans changes: `direct` nobody, `plan` all of them, `auto` all but a single one"
COMMANDS: Mapping[str, SlashCommand] = {
    "/help": SlashCommand("this list"),
    "/undo": SlashCommand("take the last change back, or that of a call; shows it first, and asks", "[CALL]"),
    "/resolve": SlashCommand("settle a call with an unknown outcome; alone: list those", "[CALL done|not-done]"),
    "/show": SlashCommand("a call whole: arguments, what it changed, all it said; alone: the newest", "[CALL]"),
    "/history": SlashCommand("the conversation so far, with the calls that ran"),
    "/decisions": SlashCommand("what was held, denied, asked or allowed; `all`: what passed too", "[all]", ("all",)),
    "/plan": SlashCommand(
        "the plan in force, and what of it is used; of a REQUEST, a plan to confirm and run", "[REQUEST]"
    ),
    "/evidence": SlashCommand("what this session has looked at and changed"),
    "/policy": SlashCommand("the policy in force: where it comes from, and what each gate does"),
    "/permissions": SlashCommand(
        "what you permit in this project; one whole, or taken away", "[PERMISSION|revoke PERMISSION]"
    ),
    "/auto": SlashCommand(
        "reads and reversible changes in the workspace do not ask; nothing else", "on|off", ("on", "off")
    ),
    "/mode": SlashCommand(_WHO_PLANS, "[direct|plan|auto]", MODES),
    "/dry-run": SlashCommand("calls are judged, changes are not made", "on|off", ("on", "off")),
    "/execute": SlashCommand("show what waits for an answer again; reads that wait run, with N the next N", "[N]"),
    "/cancel": SlashCommand("give up the task in hand; what waits for an answer does not run"),
    "/quit": SlashCommand("leave; the session stays in the log"),
}
FOR_PEOPLE = ("/help", "/show", "/history", "/decisions", "/evidence", "/policy", "/permissions")
"""Commands for a person at a terminal. Most only show something; a program has the events."""
KEYS = {
    "Enter": "sends the message",
    "Alt-Enter": "begins a new line (or Esc, then Enter); pasted lines stay one message",
    "Tab": "completes commands, calls to undo or show, and paths of the workspace",
    "Up, Ctrl-R": "an earlier message; search for one",
    "Ctrl-C": "stops what works, or clears the line; the session goes on",
    "Ctrl-D": "leaves; at a question, leaves it open",
}
WAITING = ("awaiting_approval", "paused")
"""How a task is paused that /execute resumes."""
_SHOWN = 40
# "/help", "/undo 2"; "/etc/hosts" is a path.
_COMMAND = compile_late(r"/[a-z-]*(\s|\Z)")


def describe_unknown(typed: str) -> str:
    """Return what is said of a command there is not: the nearest, or how to find the others."""
    name = typed.partition(" ")[0]
    if "\n" in typed:
        return "a command is one line; /help lists them"
    shown = make_visible(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…")
    return f"there is no command `{shown}`{suggest_nearest(name, COMMANDS, '; /help lists them')}"


def is_command(typed: str) -> bool:
    """Whether a line is meant as a command; a path, which has another slash in its first word, is not."""
    return _COMMAND.match(typed) is not None
