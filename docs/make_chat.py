"""Write docs/chat.md: text captures of real chats with the rehearsal model, typed into tmux. Needs tmux and git."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).with_name("reference") / "chat-examples.md"
PATIENCE = 30
"""Seconds until something that is never shown is given up."""
LINES = 200
POLICY = "approval:\n  mode: each\n"
HEAD = """\
# Captured chats

Captured from real chats with the rehearsal model in a small git repository by `docs/make_chat.py`; nothing was edited.
[The chat](chat.md) lists all keys and commands.
"""
FILES = {
    "README.md": "# Inbox\n\nSays what it receives. Run `sh inbox.sh`.\n",
    "inbox.sh": "# Says what came in.\ncount=3\necho ready to recieve $count messages\necho done\n",
}
FIX = 'in inbox.sh replace "recieve" with "receive"'


@dataclass(frozen=True)
class Scene:
    """A chat: what is typed, and what is shown before the next is typed; `policy` goes over the defaults,
    and the model speaks `dialect`."""

    title: str
    words: str
    typed: Sequence[tuple[str, str]]
    width: int = 80
    policy: str = ""
    dialect: str = ""


SCENES = (
    Scene(
        "A hold",
        "Too little is known to do anything, so one question names what is open. Nothing ran.",
        [("clean this up", "asks"), ("", "you>")],
    ),
    Scene(
        "An approval with a difference",
        "Under `approval: {mode: each}` every change asks. The code that would make the change works the\n"
        "difference out from the file as it is now.",
        [(FIX, "approve?"), ("y", "Done")],
        policy=POLICY,
    ),
    Scene(
        "A denial with a reason",
        "A command has run in a sandbox. What it changed there would run by itself, so Foregate shows it and asks.\n"
        "After a no it never happened. The model gets the words after `n`.",
        [("run echo 'layout python' > .envrc", "approve?"), ("n tell me first what it is for", "[Foregate")],
    ),
    Scene(
        "A command, and its undo",
        "What a command changes in its sandbox can be taken back, so it needs no yes.",
        [
            ("run sed -i s/recieve/receive/ inbox.sh && sh inbox.sh > inbox.txt", "(no output)"),
            ("/undo", "(y)"),
            ("y", "undone"),
        ],
    ),
    Scene(
        "A command that reads",
        "It runs where it can do nothing else.",
        [("run grep -rn recieve . | wc -l", "| 1")],
    ),
    Scene(
        "A plan before any change",
        "Under `/mode plan` nothing changes outside a plan you confirmed. Reads need no plan.",
        [("/mode plan", "/mode is"), (FIX, "run this plan?"), ("y", "completed"), ("/mode direct", "is direct")],
    ),
    Scene(
        "Taking a change back",
        "`/undo` shows what it would do to the file as it is now. Tab after `/undo ` offers the calls to undo.",
        [(FIX, "Done"), ("/undo", "(y)"), ("y", "undone")],
    ),
    Scene(
        "Calls written as tags",
        "With `--dialect action_tags` a model writes its calls into its text. The chat lists the calls it found\n"
        "before it asks about them or runs them, and never shows the tags. See [dialects](dialects.md).",
        [(FIX, "approve?"), ("y", "Done")],
        policy=POLICY,
        dialect="action_tags",
    ),
    Scene(
        "Forty columns",
        "Foregate breaks every line itself, and each line of the model begins with its bar.",
        [(FIX, "approve?"), ("y", "Done"), ("clean this up", "asks"), ("/decisions", "more decisions")],
        width=40,
        policy=POLICY,
    ),
)


def page() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *map(captured, SCENES)])


def captured(scene: Scene) -> str:
    """Return a scene's section, played in a workspace of its own."""
    with tempfile.TemporaryDirectory(prefix="chat-") as named:
        shown = play(scene, Path(named))
    return f"## {scene.title}\n\n{scene.words}\n\n```\n{shown}\n```\n"


def play(scene: Scene, place: Path) -> str:
    """Type the scene and return what the terminal showed from the first prompt on."""
    folder = place / "inbox"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    environ = {"FOREGATE_HOME": str(place / "home"), "OPENAI_BASE_URL": "", "OPENAI_API_KEY": "", "LC_ALL": "C.UTF-8"}
    command = ["env", *(f"{name}={value}" for name, value in environ.items())]
    command += [sys.executable, "-m", "foregate", "chat", "--model", "rehearsal", "--workspace", str(folder)]
    if scene.dialect:
        command += ["--dialect", scene.dialect]
    if scene.policy:
        (place / "policy.yaml").write_text(scene.policy)
        command += ["--policy", str(place / "policy.yaml")]
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)  # noqa: S603, S607
    tmux = ["tmux", "-S", str(place / "socket"), "-f", "/dev/null"]
    size = ["-x", str(scene.width), "-y", str(LINES)]
    subprocess.run([*tmux, "new-session", "-d", "-s", "chat", *size, *command], check=True)  # noqa: S603
    try:
        until(tmux, "you>", 0)
        for keys, expected in scene.typed:
            before = len(screen(tmux))
            for key in (["-l", keys], ["Enter"]) if keys else ():
                subprocess.run([*tmux, "send-keys", "-t", "chat", *key], check=True)  # noqa: S603
            until(tmux, expected, before if keys else 0)
        if scene.typed[-1][1] != "you>":
            until(tmux, "you>", len(screen(tmux)))
        lines = screen(tmux)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)  # noqa: S603
    first = next(number for number, line in enumerate(lines) if line.startswith("you>"))
    return "\n".join(lines[first:-1])


def until(tmux: Sequence[str], text: str, before: int) -> None:
    """Wait until a line from number `before` on holds `text`; for the prompt, until the last line is one."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        lines = screen(tmux)
        if any(text in line for line in (lines[-1:] if text == "you>" else lines[before:])):
            return
        time.sleep(0.1)
    raise SystemExit(f"`{text}` was never shown:\n" + "\n".join(screen(tmux)))


def screen(tmux: Sequence[str]) -> list[str]:
    """Return the lines the terminal shows, without empty ones at the end."""
    command = [*tmux, "capture-pane", "-p", "-t", "chat"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return [line.rstrip() for line in done.stdout.rstrip().split("\n")]


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
