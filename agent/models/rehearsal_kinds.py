"""What the rehearsal model does for each kind of wish: a table of what it looks at, what it changes, what it shows.

The same rows serve when a wish is fulfilled, when it is planned, and when a task of a plan is filled in.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.models.rehearsal_reading import CallAnswer, Wish, end_line
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall

WHO = "I am the rehearsal model: a small fixed program, no language model. I make real tool calls on the workspace."
HELP = f"""{WHO}
I understand plain requests such as these, several of them one after the other if you like:

  read FILE                          list files in DIR
  explain FILE                       what is in this repository
  search "TEXT" in DIR               status, diff, log
  replace "A" with "B" in FILE       fix the typo A -> B in FILE
  create FILE with "TEXT"            append "TEXT" to FILE
  add a docstring to NAME in FILE    rename A to B, create folder DIR
  delete FILE                        delete stale logs in DIR
  run COMMAND                        run the tests, debug the failing test
  commit everything with message "M" check if there are changes, and if so, commit them
  push BRANCH to REMOTE
  remember NAME: TEXT, recall TEXT   fetch URL
  delegate "REQUEST"

Ask for something vague ("clean this up") or for a poem and I act rashly on purpose, to show what the gates do.
For anything else, set OPENAI_BASE_URL and FOREGATE_MODEL to use a language model."""
# "tests/test_a.py:12", 'tests/test_a.py", line 12'.
_PLACE = compile_late(r"([\w./-]+\.\w+)(?::|\", line )([0-9]+)")
"""A file and a line as a test runner names them."""
_ELSEWHERE = ("..", "/usr/", "/lib/", "/opt/")
"""How places outside a workspace begin: a traceback ends in the libraries a test calls."""


class Told(Struct, frozen=True):
    """What a piece of work came to, in words; `ok` False means that what follows is left undone."""

    text: str
    ok: bool = True


Answers = Sequence[CallAnswer]
Changes = Sequence[ToolCall] | Told | None
"""Calls to make, or why there are none; None where they are not known before looking."""


class WishKind(Struct, frozen=True):
    """One kind of wish. `says` is the end of "I am to ..." with the wish's fields in it.

    `looks` is a call made first, `changes` those made in its light, `shows` what is answered. A
    call is its tool with the wish's field for each argument; a field without a value is left out, and where `path` is
    several there is a call for each. Unless `looks_may_fail`, a look that fails ends the wish.
    Changes that are not known before looking are calls of `tool`. In a plan they become a task of their own, run only
    `when` a condition on the look, the task `#`, holds.
    """

    says: str
    looks: str = ""
    changes: str | Callable[[Wish, Answers], Changes] = ""
    shows: Callable[[Wish, Answers], str] = lambda wish, answers: f"Done: {describe(wish)}."
    looks_may_fail: bool = False
    planned: bool = True
    tool: str = ""
    when: str = ""


def describe(wish: Wish) -> str:
    """Return a wish as the end of "I am to ..."."""
    kind = KINDS.get(wish.verb)
    if kind is None or not kind.says:
        return f'do this: "{short(wish.said)}"'
    every = ", ".join(wish.words)
    fields = {"text": short(wish.text), "other": short(wish.other), "target": wish.target}
    return kind.says.format(words=every, line=" ".join(wish.words), changed=every or "everything", **fields)


def look(wish: Wish) -> list[ToolCall]:
    """Return the calls made first for a wish."""
    return build_calls(KINDS[wish.verb].looks, wish)


def change(wish: Wish, seen: Answers = ()) -> Changes:
    """Return what a wish changes in the light of what was seen, if anything was."""
    kind = KINDS[wish.verb]
    if isinstance(kind.changes, str):
        return build_calls(kind.changes, wish)
    return None if kind.tool and not seen else kind.changes(wish, seen)


def build_calls(row: str, wish: Wish) -> list[ToolCall]:
    tool, *pairs = row.split() or [""]
    if pairs == ["path=words"]:
        return [build_call(tool, path=path) for path in wish.words]
    named = {name: getattr(wish, key, key) for name, _, key in (pair.partition("=") for pair in pairs)}
    return [build_call(tool, **{name: value for name, value in named.items() if value})] if tool else []


def build_call(tool: str, /, **arguments: Json) -> ToolCall:
    return ToolCall.parse(tool, json.dumps(arguments, ensure_ascii=False))


def short(text: str, longest: int = 80) -> str:
    """Return a text on one line and not longer than `longest` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}\u2026"


def excerpt(text: str, lines: int = 40) -> str:
    """Return the beginning of a text, saying how many lines are left out."""
    every = text.rstrip("\n").split("\n")
    shown = "\n".join(line[:200] for line in every[:lines])
    return shown if len(every) <= lines else f"{shown}\n({len(every) - lines} more lines)"


def show_output(wish: Wish, answers: Answers) -> str:
    return f"{describe(wish)}:\n{excerpt(answers[-1].output) or '(nothing)'}"


def show_run(wish: Wish, answers: Answers) -> str:
    what = wish.text or " ".join(wish.words) or "the tests"
    ended = f" (exit code {answers[-1].exit_code})" if answers[-1].exit_code else ""
    return f"{what}{ended}:\n{excerpt(answers[-1].output).strip() or '(no output)'}"


def show_files(wish: Wish, answers: Answers) -> str:
    return "\n\n".join(
        f"{path}:\n{excerpt(answer.output)}" if answer.ok else f"I could not read {path}: {answer.why}."
        for path, answer in zip(wish.words, answers, strict=True)
    )


def read_readme(wish: Wish, seen: Answers) -> Changes:
    has_one = bool(seen) and "README.md" in list_files(seen[0])
    return [build_call("read_file", path="README.md")] if has_one else []


def show_overview(wish: Wish, answers: Answers) -> str:
    text = f"The workspace holds:\n{excerpt(answers[0].output, 30)}"
    return f"{text}\n\nIts README begins:\n{excerpt(answers[1].output, 8)}" if len(answers) > 1 else text


def list_files(seen: CallAnswer) -> list[str]:
    """Return the files a listing names, each with its size behind it; folders and links have none."""
    rows = (line.rstrip().rpartition("  ") for line in seen.output.splitlines())
    return [name for name, _, size in rows if size.isdigit()]


def substitute(wish: Wish, seen: Answers) -> Changes:
    """Return the edit that replaces a passage, or the whole file anew where the passage occurs often."""
    count = seen[0].output.count(wish.text) if seen else 1
    if count == 0:
        return Told(f'"{short(wish.text)}" does not occur in {wish.target}, so I changed nothing.', ok=False)
    if count == 1:
        return [build_call("edit_file", path=wish.target, old=wish.text, new=wish.other)]
    return rewrite(wish, seen[0], seen[0].output.replace(wish.text, wish.other))


def append(wish: Wish, seen: Answers) -> Changes:
    return rewrite(wish, seen[0], end_line(seen[0].output) + end_line(wish.text))


def rewrite(wish: Wish, seen: CallAnswer, content: str) -> Changes:
    """Return the call that writes a file anew; only one that was read in full is."""
    if seen.left_out_bytes:
        return Told(f"{wish.target} is too long for me to {describe(wish)}.", ok=False)
    return [build_call("write_file", path=wish.target, content=content)]


def document(wish: Wish, seen: Answers) -> Changes:
    """Return the edit that puts a docstring, the words of its name, under the head of a Python function."""
    try:
        tree = ast.parse(seen[0].output)
    except (SyntaxError, ValueError):
        return Told(f"I add docstrings to Python only, and I cannot read {wish.target} as Python.", ok=False)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [node for node in ast.walk(tree) if isinstance(node, kinds) and node.name == wish.text]
    if len(found) != 1 or found[0].body[0].lineno == found[0].lineno:
        return Told(f"There is no one place for a docstring of {wish.text} in {wish.target}.", ok=False)
    if ast.get_docstring(found[0]) is not None:
        return Told(f"{wish.text} in {wish.target} has a docstring already, so I changed nothing.")
    first = found[0].body[0]
    head = "".join(seen[0].output.splitlines(keepends=True)[found[0].lineno - 1 : first.lineno - 1])
    words = "Run the program" if wish.text == "main" else wish.text.strip("_").replace("_", " ").capitalize()
    documented = f'{head}{" " * first.col_offset}"""{words}."""\n'
    return substitute(replace(wish, verb="replace", text=head, other=documented), seen)


def delete_matches(wish: Wish, seen: Answers) -> Changes:
    """Return the calls that delete the listed files right in a folder that match the pattern."""
    prefix = "" if wish.folder == "." else f"{wish.folder}/"
    bare = [name.removeprefix(prefix) for name in list_files(seen[0]) if name.startswith(prefix)]
    wanted = [name for name in bare if name and "/" not in name and fnmatchcase(name, wish.text)]
    if not wanted:
        return Told(f"There is no {wish.text} in {wish.folder}, so nothing was deleted.")
    return [build_call("delete_path", path=f"{prefix}{name}") for name in wanted]


def read_failure(wish: Wish, seen: Answers) -> Changes:
    """Return the call that reads the last file of the workspace that failing tests name."""
    if seen[0].code:
        return Told(f"I did not run the tests: {seen[0].why}.", ok=False)
    if seen[0].ok:
        return Told("The tests pass, so there is nothing to debug.")
    if path := failing_place(seen[0].output)[0]:
        return [build_call("read_file", path=path)]
    return Told(f"The tests fail and name no file of the workspace:\n{excerpt(seen[0].output)}")


def failing_place(output: str) -> tuple[str, int]:
    """Return file and line of the last place a test's output names in the workspace, "" for none."""
    found = [(name.removeprefix("./"), int(line)) for name, line in _PLACE.findall(output)]
    return next((place for place in reversed(found) if not place[0].startswith(_ELSEWHERE)), ("", 0))


def show_failure(wish: Wish, answers: Answers) -> str:
    """Return what the tests said and the line they name; mending it takes a language model."""
    name, line = failing_place(answers[0].output)
    lines = answers[-1].output.splitlines()
    shown = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    told = f"The tests fail:\n{excerpt(answers[0].output)}\n\nThe place they name last is line {line} of {name}:"
    able = "Mending it takes a language model; I can replace one passage by another if you say which."
    return f"{told}\n  {shown}\n{able}"


def add_and_commit(wish: Wish, seen: Answers) -> Changes:
    add = build_call("git_add", paths=list(wish.words or (".",)))
    return [add, build_call("git_commit", message=wish.text or "Commit changes")]


def commit_changes(wish: Wish, seen: Answers) -> Changes:
    """Return the calls that commit, where git's status, whose first line names the branch, shows changes."""
    if seen and len([line for line in seen[0].output.splitlines() if line.strip()]) < 2:
        return Told("There are no uncommitted changes, so there was nothing to commit.")
    return add_and_commit(wish, seen)


KINDS: dict[str, WishKind] = {
    "append": WishKind("append a line to {target}", "read_file path=target", append, tool="write_file"),
    "commit": WishKind('commit {changed} with the message "{text}"', "git_status", add_and_commit),
    "commit_if": WishKind(
        "commit what has changed, if anything has",
        "git_status",
        commit_changes,
        when='{"task": #, "lines_at_least": 2}',
    ),
    "create_directory": WishKind("create the folder {target}", "", "create_directory path=target"),
    "debug": WishKind(
        *("run the tests and see where they fail", "run_tests", read_failure, show_failure, True),
        tool="read_file",
        when='{"not": {"task": #, "exit_code": 0}}',
    ),
    "delegate": WishKind('hand over "{text}"', "delegate task=text", shows=show_output, planned=False),
    "delete": WishKind("delete {words}", "read_file path=words", "delete_path path=words", looks_may_fail=True),
    "diff": WishKind("show the diff", "git_diff", shows=show_output),
    "docstring": WishKind("add a docstring to {text} in {target}", "read_file path=target", document, tool="edit_file"),
    "fetch": WishKind("fetch {target}", "", "http_request method=GET url=target", show_output),
    "greet": WishKind("", changes=lambda wish, seen: Told(f"Hello. {WHO} Say `help` to see what I understand.")),
    "help": WishKind("", changes=lambda wish, seen: Told(HELP)),
    "list": WishKind("list the files in {target}", "list_files path=target", shows=show_output),
    "log": WishKind("show the log", "git_log", shows=show_output),
    "mail": WishKind("read the mail", "read_mail", shows=show_output, planned=False),
    "move": WishKind(
        "move {target} to {other}",
        "read_file path=target",
        "move_path source=target destination=other",
        looks_may_fail=True,
    ),
    "overview": WishKind("say what is in this repository", "list_files path=.", read_readme, show_overview),
    "push": WishKind("push {text} to {target}", "", "git_push remote=target branch=text", planned=False),
    "read": WishKind("read {words}", "read_file path=words", shows=show_files, looks_may_fail=True),
    "recall": WishKind("look into memory", "recall query=text", shows=show_output, planned=False),
    "remember": WishKind('remember "{text}"', "", "remember key=target text=text", planned=False),
    "replace": WishKind('replace "{text}" with "{other}" in {target}', "read_file path=target", substitute),
    "run": WishKind("run `{line}`", "", "run_command argv=words", show_run),
    "search": WishKind('search for "{text}" in {target}', "search_text pattern=text path=target", shows=show_output),
    "send": WishKind('send "{text}" to {target}', "", "send_message to=target text=text", planned=False),
    "shell": WishKind("run `{text}` in a shell", "", "run_shell command=text", show_run),
    "status": WishKind("show git's status", "git_status", shows=show_output),
    "sweep": WishKind(
        "delete the files {text} in {target}", "list_files path=folder glob=text", delete_matches, tool="delete_path"
    ),
    "test": WishKind("run the tests", "", "run_tests", show_run),
    "write": WishKind("write {target}", "", "write_file path=target content=text"),
}
