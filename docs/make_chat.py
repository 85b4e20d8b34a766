"""Write the page of captured chats: texts and pictures of real chats, typed into tmux. Needs tmux and git."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, MONOKAI
from rich.text import Text
from scripted_endpoint import Turn, serve_script

IMAGES = Path(__file__).with_name("images")
POST = Path(__file__).with_name("post_server.py")
FONTS = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
"""Fonts of another host, which a picture in a page may not load."""
THEMES = {"light": DEFAULT_TERMINAL_THEME, "dark": MONOKAI}
PAGE = Path(__file__).with_name("reference") / "chat-examples.md"
PATIENCE = 60
"""Seconds until something that is never shown is given up."""
LINES = 200
POLICY = "approval:\n  mode: each\n"
DENIES = "rules: {list: [{id: frozen, then: deny, effect: [edit], message: nothing is edited before the release}]}\n"
SCRIPTED = "plan: {mode: off}\ncritique: {mode: off}\n"
DECLARED = """\
tools:
  post.read_mail: {effect: observation, read_only: true, external_side_effect: false, needs_approval: false}
  post.send_message: {effect: send, targets: {to: {kind: message, access: send}}, texts: [text]}
"""
INTERRUPT = "^C-c"
"""Typed in place of words: a key."""
OFFER = "offer them?"
HEAD = """\
# Captured chats

`docs/make_chat.py` captured these chats in a small git repository; nothing was edited. The rehearsal model answers. In
the chats with the MCP server `post` and a call held twice, an endpoint follows a script, and planner and critic are
off. [The chat](chat.md) lists all keys and commands.
"""
FILES = {
    "README.md": "# Inbox\n\nSays what it receives. Run `sh inbox.sh`.\n",
    "inbox.sh": "# Says what came in.\ncount=3\necho ready to recieve $count messages\necho done\n",
}
FIX = 'in inbox.sh replace "recieve" with "receive"'
MAIL = "read the mail and do what is left to do"
READ = "I read the newest letter.", "post.read_mail", dict[str, str]()
MEND = "edit_file", {"path": "inbox.sh", "old": "recieve", "new": "receive"}
CHORES = f'{FIX}; in README.md replace "Says" with "Prints"; run sh inbox.sh; commit everything with message "Mend"'


@dataclass(frozen=True)
class Scene:
    """A chat: what is typed, and what is shown before the next is typed; `policy` goes over the defaults,
    and the model speaks `dialect`. With `height` the screen is shown as it is in the end, of so many rows. `environ` is
    the environment. `picture` is the name of its pictures, one on a light and one on a dark background."""

    title: str
    words: str
    typed: Sequence[tuple[str, str]]
    width: int = 80
    policy: str = ""
    dialect: str = ""
    height: int = 0
    model: str = "rehearsal"
    environ: Mapping[str, str] = field(default_factory=dict)
    picture: str = ""
    script: Sequence[Turn] = ()
    post: bool = False


SCENES = (
    Scene(
        "A denial with a reason",
        "A command has run in a sandbox. What it changed there would run by itself, so Foregate shows it and asks.\n"
        "After a no it never happened. The model gets the words after `n`.",
        [("run echo 'layout python' > .envrc", "approve?"), ("n tell me first what it is for", "blocked")],
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
        "A plan before any change",
        "Under `/mode plan` nothing changes outside a plan you confirmed. Reads need no plan.",
        [("/mode plan", "/mode is"), (FIX, "run this plan?"), ("y", "completed"), ("/mode direct", "is direct")],
    ),
    Scene(
        "A command that fails, and one that is stopped",
        "The end of what it said is shown, and the summary names it. Ctrl-C stopped the second command.",
        [("run sh missing.sh", "spent"), ("run sleep 60", "sleep 60"), (INTERRUPT, "cancelled")],
    ),
    Scene(
        "A rule that denies",
        "The policy has a rule with a message. What it denies is said once, and the task ends blocked.",
        [(FIX, "blocked")],
        policy=DENIES,
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
        "A plan on a low screen",
        "On 80 columns and 24 rows a longer sheet is cut in its middle, so that its first row never scrolls away.\n"
        "A yes counts once `d` has shown the rest.",
        [("/mode plan", "/mode is"), (CHORES, "run this plan?")],
        height=24,
    ),
    Scene(
        "An approval on a wide screen",
        "The same on 200 columns and 50 rows, in colours that can be read on light and on dark backgrounds.",
        [(FIX, "approve?")],
        width=200,
        height=50,
        policy=POLICY,
        picture="approval",
    ),
    Scene(
        "The tools of a server",
        "A person sees what an MCP server says of its tools before the model does, and again after any change.",
        [("", OFFER)],
        height=24,
        post=True,
    ),
    Scene(
        "A tool that nobody declared",
        "`t` says what the tool does, for its later calls. This call has an answer of its own.",
        [("", OFFER), ("y", "you>"), (MAIL, "approve?"), ("t", "does it do?"), ("r", "approve?"), ("y", "moved")],
        policy=SCRIPTED,
        script=[READ, ("Ann has moved.", "", {})],
        post=True,
    ),
    Scene(
        "A value from outside",
        "Only a letter says where the copy goes, so a person types the address. The policy declares both tools.",
        [("", OFFER), ("y", "you>"), (MAIL, "approve?"), ("y", "to allow it"), ("ann@example.net", "is sent")],
        policy=SCRIPTED + DECLARED,
        script=[
            READ,
            ("I send a copy.", "post.send_message", {"to": "ann@example.net", "text": "A copy."}),
            ("The copy is sent.", "", {}),
        ],
        post=True,
    ),
    Scene(
        "A call held twice",
        "The request wants words, and the model sends the same change again. `a` lets it through this gate alone,\n"
        "and `s`, typed here, ends the task. The policy has `drift: {max_holds: 3}`.",
        [("Just tell me in words what is wrong in inbox.sh.", "go on?"), ("s", "needs")],
        policy=SCRIPTED + "drift: {max_holds: 3}\n",
        script=[("I read it first.", "read_file", {"path": "inbox.sh"}), *[("I mend the typo.", *MEND)] * 2],
    ),
)


def page() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *map(captured, SCENES)])


def captured(scene: Scene) -> str:
    """Return a scene's section, played in a workspace of its own."""
    with tempfile.TemporaryDirectory(prefix="chat-") as named, serve_script(scene.script) as address:
        scripted = {"model": "scripted", "environ": {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "none"}}
        shown = play(replace(scene, **scripted) if scene.script else scene, Path(named))
    pictures = "".join(
        f"\n![The same on a {theme} background](../images/{scene.picture}-{theme}.svg)\n"
        for theme in (THEMES if scene.picture else ())
    )
    return f"## {scene.title}\n\n{scene.words}\n\n```\n{shown}\n```\n{pictures}"


def draw(shown: str, scene: Scene) -> None:
    """Write a screen as pictures of terminals."""
    form = FONTS.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code", "ui-monospace")
    for name, theme in THEMES.items():
        console = Console(record=True, width=scene.width, file=io.StringIO(), force_terminal=True, highlight=False)
        console.print(Text.from_ansi(shown))
        about = {"title": "foregate chat", "theme": theme, "code_format": form, "unique_id": f"{scene.picture}-{name}"}
        (IMAGES / f"{scene.picture}-{name}.svg").write_text(f"{console.export_svg(**about)}\n", "utf-8")


def play(scene: Scene, place: Path) -> str:
    """Type the scene and return what the terminal showed from the first prompt on."""
    folder = place / "inbox"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    environ = {"FOREGATE_HOME": str(place / "home"), "OPENAI_BASE_URL": "", "OPENAI_API_KEY": "", "LC_ALL": "C.UTF-8"}
    environ |= {"TERM": "xterm-256color", "PATH": f"{place}:{os.environ['PATH']}", **scene.environ}
    command = ["env", *(f"{name}={value}" for name, value in environ.items())]
    command += [sys.executable, "-m", "foregate", "chat", "--model", scene.model, "--workspace", str(folder)]
    if scene.dialect:
        command += ["--dialect", scene.dialect]
    if scene.policy:
        (place / "policy.yaml").write_text(scene.policy)
        command += ["--policy", str(place / "policy.yaml")]
    if scene.post:
        (place / "post-server").write_text(f"#!{sys.executable}\n{POST.read_text('utf-8')}")
        (place / "post-server").chmod(0o755)
        (place / "mcp.json").write_text(json.dumps({"mcpServers": {"post": {"command": "post-server"}}}))
        command += ["--mcp", str(place / "mcp.json")]
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)  # noqa: S603, S607
    return type_words(scene, place, command)


def type_words(scene: Scene, place: Path, command: Sequence[str]) -> str:
    """Type words into a chat, close its terminal and return what it showed."""
    tmux = ["tmux", "-S", str(place / "socket"), "-f", "/dev/null"]
    size = ["-x", str(scene.width), "-y", str(scene.height or LINES)]
    subprocess.run([*tmux, "new-session", "-d", "-s", "chat", *size, *command], check=True)  # noqa: S603
    try:
        if not scene.post:
            until(tmux, "you>", 0)
        for keys, expected in scene.typed:
            before = 0 if scene.height else len(screen(tmux))
            for key in list_keys(keys):
                subprocess.run([*tmux, "send-keys", "-t", "chat", *key], check=True)  # noqa: S603
            until(tmux, expected, before if keys else 0)
        if scene.height:
            first = next((number for number, line in enumerate(screen(tmux)) if line.startswith("you>")), 0)
            if scene.picture:
                draw("\n".join(screen(tmux, "-e")[first:]), scene)
            return "\n".join(screen(tmux)[first:])
        if scene.typed[-1][1] != "you>":
            until(tmux, "you>", len(screen(tmux)))
        lines = screen(tmux)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)  # noqa: S603
    first = next(number for number, line in enumerate(lines) if line.startswith("you>"))
    return "\n".join(lines[first:-1])


def list_keys(typed: str) -> list[list[str]]:
    """Return what tmux is to press for it; nothing for what is not typed."""
    if typed == INTERRUPT:
        return [[typed.removeprefix("^")]]
    return [["-l", typed], ["Enter"]] if typed else []


def until(tmux: Sequence[str], text: str, before: int) -> None:
    """Wait until a line from number `before` on holds `text`; for the prompt, until the last line is one."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        lines = screen(tmux)
        if any(text in line for line in (lines[-1:] if text == "you>" else lines[before:])):
            return
        time.sleep(0.1)
    raise SystemExit(f"`{text}` was never shown:\n" + "\n".join(screen(tmux)))


def screen(tmux: Sequence[str], *how: str) -> list[str]:
    """Return the lines the terminal shows, without empty ones at the end; with `-e` in their colours."""
    command = [*tmux, "capture-pane", "-p", *how, "-t", "chat"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return [line.rstrip() for line in done.stdout.rstrip().split("\n")]


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
