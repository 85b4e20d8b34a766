"""What the rehearsal model does for each kind of wish: a table of what it looks at, what it changes, what it shows.

The same rows serve when a wish is fulfilled, when it is planned, and when a task of a plan is filled in.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from foregate.agent.models.rehearsal.conversation import CallAnswer
from foregate.agent.models.rehearsal.wish import Wish, end_line, excerpt, short
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
  remember NAME: TEXT, recall TEXT   fetch URL
  delegate "REQUEST"

Ask for something vague ("clean this up") or for a poem and I act rashly on purpose, to show what the gates do.
For anything else, set OPENAI_BASE_URL and FOREGATE_MODEL to use a language model."""
_PLACE = re.compile(r"([\w./-]+\.\w+)(?::|\", line )([0-9]+)")
"""A file and a line as a test runner names them."""
_ELSEWHERE = ("..", "/usr/", "/lib/", "/opt/")
"""How places outside a workspace begin: a traceback ends in the libraries a test calls."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a piece of work came to, in words; `ok` False means that what follows is left undone."""

    text: str
    ok: bool = True


Answers = Sequence[CallAnswer]
Changes = Sequence[ToolCall] | Told | None
"""Calls to make, or why there are none; None where they are not known before looking."""


def show_done(wish: Wish, answers: Answers) -> str:
    """Return that a wish is fulfilled."""
    return f"Done: {describe(wish)}."


def show_output(wish: Wish, answers: Answers) -> str:
    """Return under a heading what the last call showed."""
    return f"{describe(wish)}:\n{excerpt(answers[-1].output) or '(nothing)'}"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of wish. `says` is the end of "I am to ..." with the wish's fields in it.

    `looks` are calls made first, `changes` those made in their light, `shows` what is answered. Unless
    `looks_may_fail`, a look that fails ends the wish.
    In a plan, changes not known before looking become a task of `tool`, run only `when` a condition on the look holds.
    """

    says: str
    looks: Callable[[Wish], Sequence[ToolCall]] = lambda wish: ()
    changes: Callable[[Wish, Answers | None], Changes] = lambda wish, seen: ()
    shows: Callable[[Wish, Answers], str] = show_done
    looks_may_fail: bool = False
    planned: bool = True
    tool: str = ""
    when: Callable[[int], Json] | None = None


def describe(wish: Wish) -> str:
    """Return a wish as the end of "I am to ..."."""
    kind = KINDS.get(wish.verb)
    if kind is None or not kind.says:
        return f'do this: "{short(wish.said)}"'
    every = ", ".join(wish.words)
    fields = {"text": short(wish.text), "other": short(wish.other), "target": wish.target}
    return kind.says.format(words=every, line=" ".join(wish.words), changed=every or "everything", **fields)


def call(tool: str, /, **arguments: Json) -> ToolCall:
    """Return the call of a tool."""
    return ToolCall.parse(tool, json.dumps(arguments, ensure_ascii=False))


def read_target(wish: Wish) -> Sequence[ToolCall]:
    """Return the call that reads the file of a wish."""
    return [call("read_file", path=wish.target)]


def read_words(wish: Wish) -> Sequence[ToolCall]:
    """Return the calls that read the files of a wish."""
    return [call("read_file", path=path) for path in wish.words]


def looking(tool: str, **fields: str) -> Callable[[Wish], Sequence[ToolCall]]:
    """Return what looks with one tool; `fields` names for each argument the wish's field."""
    return lambda wish: [call(tool, **{name: value for name, key in fields.items() if (value := getattr(wish, key))})]


def changing(tool: str, **fields: str) -> Callable[[Wish, Answers | None], Changes]:
    """Return what makes one call whatever was seen; see `looking`."""
    return lambda wish, seen: looking(tool, **fields)(wish)


def show_files(wish: Wish, answers: Answers) -> str:
    """Return each file that was read, or why it was not."""
    parts = [
        f"{path}:\n{excerpt(answer.output)}" if answer.ok else f"I could not read {path}: {answer.why}."
        for path, answer in zip(wish.words, answers, strict=True)
    ]
    return "\n\n".join(parts)


def read_readme(wish: Wish, seen: Answers | None) -> Changes:
    """Return the call that reads a listed README."""
    listed = seen[0].output.splitlines() if seen else []
    return [call("read_file", path="README.md")] if "README.md" in map(file_of, listed) else ()


def show_overview(wish: Wish, answers: Answers) -> str:
    """Return what a listing and a README, where it was read, say of a workspace."""
    text = f"The workspace holds:\n{excerpt(answers[0].output, 30)}"
    return f"{text}\n\nIts README begins:\n{excerpt(answers[1].output, 8)}" if len(answers) > 1 else text


def substitute(wish: Wish, seen: Answers | None) -> Changes:
    """Return the edit that replaces a passage, or the whole file anew where the passage occurs often."""
    if seen is None:
        return [call("edit_file", path=wish.target, old=wish.text, new=wish.other)]
    count = seen[0].output.count(wish.text)
    if count == 0:
        return Told(f'"{short(wish.text)}" does not occur in {wish.target}, so I changed nothing.', ok=False)
    if count == 1:
        return [call("edit_file", path=wish.target, old=wish.text, new=wish.other)]
    return rewrite(wish, seen, seen[0].output.replace(wish.text, wish.other))


def add_line(wish: Wish, seen: Answers | None) -> Changes:
    """Return the call that writes a file with a line more."""
    return None if seen is None else rewrite(wish, seen, end_line(seen[0].output) + end_line(wish.text))


def rewrite(wish: Wish, seen: Answers, content: str) -> Changes:
    """Return the call that writes a file anew; only one that was read in full is."""
    if seen[0].left_out:
        return Told(f"{wish.target} is too long for me to {describe(wish)}.", ok=False)
    return [call("write_file", path=wish.target, content=content)]


def document(wish: Wish, seen: Answers | None) -> Changes:
    """Return the edit that puts a docstring, the words of its name, under the head of a Python function."""
    if seen is None:
        return None
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
    return substitute(
        Wish("replace", wish.said, wish.target, head, f'{head}{" " * first.col_offset}"""{words}."""\n'), seen
    )


def delete_words(wish: Wish, seen: Answers | None) -> Changes:
    """Return the calls that delete named files."""
    return [call("delete_path", path=path) for path in wish.words]


def list_matches(wish: Wish) -> Sequence[ToolCall]:
    """Return the call that lists what a sweep may delete."""
    return [call("list_files", path=wish.target.rstrip("/") or ".", glob=wish.text)]


def delete_matches(wish: Wish, seen: Answers | None) -> Changes:
    """Return the calls that delete the listed files right in a folder that match the pattern."""
    if seen is None:
        return None
    folder = wish.target.rstrip("/") or "."
    prefix = "" if folder == "." else f"{folder}/"
    listed = [name for line in seen[0].output.splitlines() if (name := file_of(line)).startswith(prefix)]
    bare = [name.removeprefix(prefix) for name in listed]
    wanted = [name for name in bare if name and "/" not in name and fnmatchcase(name, wish.text)]
    if not wanted:
        return Told(f"There is no {wish.text} in {folder}, so nothing was deleted.")
    return [call("delete_path", path=f"{prefix}{name}") for name in wanted]


def file_of(line: str) -> str:
    """Return the file a line of a listing names, "" for a folder or a link; the size behind it is left out."""
    name, _, size = line.rstrip().rpartition("  ")
    return name if size.isdigit() else ""


def show_run(wish: Wish, answers: Answers) -> str:
    """Return the output of a command and how it ended."""
    what = wish.text or " ".join(wish.words) or "the tests"
    ended = f" (exit code {answers[-1].exit_code})" if answers[-1].exit_code else ""
    return f"{what}{ended}:\n{excerpt(answers[-1].output).strip() or '(no output)'}"


def read_failure(wish: Wish, seen: Answers | None) -> Changes:
    """Return the call that reads the last file of the workspace that failing tests name."""
    if seen is None:
        return None
    if seen[0].code:
        return Told(f"I did not run the tests: {seen[0].why}.", ok=False)
    if seen[0].ok:
        return Told("The tests pass, so there is nothing to debug.")
    if (place := failing_place(seen[0].output)) is None:
        return Told(f"The tests fail and name no file of the workspace:\n{excerpt(seen[0].output)}")
    return [call("read_file", path=place[0])]


def failing_place(output: str) -> tuple[str, int] | None:
    """Return file and line of the last place a test's output names in the workspace."""
    found = [(name.removeprefix("./"), int(line)) for name, line in _PLACE.findall(output)]
    return next((place for place in reversed(found) if not place[0].startswith(_ELSEWHERE)), None)


def show_failure(wish: Wish, answers: Answers) -> str:
    """Return what the tests said and the line they name; mending it takes a language model."""
    name, line = failing_place(answers[0].output) or ("", 0)
    lines = answers[-1].output.splitlines()
    shown = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return (
        f"The tests fail:\n{excerpt(answers[0].output)}\n\nThe place they name last is line {line} of {name}:\n"
        f"  {shown}\nMending it takes a language model; I can replace one passage by another if you say which."
    )


def add_and_commit(wish: Wish, seen: Answers | None) -> Changes:
    """Return the calls that add and commit."""
    return [call("git_add", paths=list(wish.words or (".",))), call("git_commit", message=wish.text)]


def commit_changes(wish: Wish, seen: Answers | None) -> Changes:
    """Return the calls that commit, where git's status, whose first line names the branch, shows changes."""
    if seen and len([line for line in seen[0].output.splitlines() if line.strip()]) < 2:
        return Told("There are no uncommitted changes, so there was nothing to commit.")
    return add_and_commit(Wish("commit", wish.said, text=wish.text or "Commit changes"), seen)


git_status = looking("git_status")
KINDS: dict[str, Kind] = {
    "append": Kind("append a line to {target}", read_target, add_line, tool="write_file"),
    "commit": Kind('commit {changed} with the message "{text}"', git_status, add_and_commit),
    "commit_if": Kind(
        "commit what has changed, if anything has",
        git_status,
        commit_changes,
        when=lambda task: {"task": task, "lines_at_least": 2},
    ),
    "create_directory": Kind("create the folder {target}", changes=changing("create_directory", path="target")),
    "debug": Kind(
        "run the tests and see where they fail",
        looking("run_tests"),
        read_failure,
        show_failure,
        looks_may_fail=True,
        tool="read_file",
        when=lambda task: {"not": {"task": task, "exit_code": 0}},
    ),
    "delegate": Kind('hand over "{text}"', looking("delegate", task="text"), shows=show_output, planned=False),
    "delete": Kind("delete {words}", read_words, delete_words, looks_may_fail=True),
    "diff": Kind("show the diff", looking("git_diff"), shows=show_output),
    "docstring": Kind("add a docstring to {text} in {target}", read_target, document, tool="edit_file"),
    "fetch": Kind(
        "fetch {target}",
        changes=lambda wish, seen: [call("http_request", method="GET", url=wish.target)],
        shows=show_output,
    ),
    "greet": Kind("", changes=lambda wish, seen: Told(f"Hello. {WHO} Say `help` to see what I understand.")),
    "help": Kind("", changes=lambda wish, seen: Told(HELP)),
    "list": Kind("list the files in {target}", looking("list_files", path="target"), shows=show_output),
    "log": Kind("show the log", looking("git_log"), shows=show_output),
    "move": Kind(
        "move {target} to {other}",
        read_target,
        changing("move_path", source="target", destination="other"),
        looks_may_fail=True,
    ),
    "overview": Kind(
        "say what is in this repository", lambda wish: [call("list_files", path=".")], read_readme, show_overview
    ),
    "read": Kind("read {words}", read_words, shows=show_files, looks_may_fail=True),
    "recall": Kind("look into memory", looking("recall", query="text"), shows=show_output, planned=False),
    "remember": Kind('remember "{text}"', changes=changing("remember", key="target", text="text"), planned=False),
    "replace": Kind('replace "{text}" with "{other}" in {target}', read_target, substitute),
    "run": Kind(
        "run `{line}`", changes=lambda wish, seen: [call("run_command", argv=list(wish.words))], shows=show_run
    ),
    "search": Kind(
        'search for "{text}" in {target}', looking("search_text", pattern="text", path="target"), shows=show_output
    ),
    "shell": Kind("run `{text}` in a shell", changes=changing("run_shell", command="text"), shows=show_run),
    "status": Kind("show git's status", git_status, shows=show_output),
    "sweep": Kind("delete the files {text} in {target}", list_matches, delete_matches, tool="delete_path"),
    "test": Kind("run the tests", changes=changing("run_tests"), shows=show_run),
    "write": Kind("write {target}", changes=changing("write_file", path="target", content="text")),
}
