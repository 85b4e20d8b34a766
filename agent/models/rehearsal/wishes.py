"""How the rehearsal model fulfils one wish: look, change, say what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from foregate.agent.models.rehearsal.conversation import CallAnswer
from foregate.agent.models.rehearsal.stage import Play, Stage, Told, attempt, call, one, why_not
from foregate.agent.models.rehearsal.wish import Wish, ended
from foregate.agent.models.rehearsal.words import GREETING, HELP, described, excerpt, short
from foregate.schemas.tool_call import ToolCall

BATCH = 10
"""Files deleted with one response."""


def fulfil(stage: Stage, wish: Wish) -> Play[Told]:
    """Fulfil one wish and return what came of it in words."""
    if wish.verb == "help":
        return Told(HELP)
    if wish.verb == "greet":
        return Told(GREETING)
    if wish.verb == "ask_how":
        return Told(f"Please say {wish.text}.", False)
    performer = _PERFORMERS.get(wish.verb)
    if performer is None:
        return Told(f'I do not know how to do "{short(wish.said)}".', False)
    told = yield from performer(stage, wish)
    return told


def observe(stage: Stage, wish: Wish, wanted: ToolCall, heading: str) -> Play[Told]:
    """Make one observing call and return what it shows."""
    answer = yield from one(stage, "", wanted)
    if not answer.ok:
        return Told(f"I could not {described(wish)}: {why_not(answer)}.", False)
    return Told(f"{heading}\n{excerpt(answer.output) or '(nothing)'}")


def read(stage: Stage, wish: Wish) -> Play[Told]:
    """Read files and show them."""
    answers = yield from attempt(stage, "", *[call("read_file", path=path) for path in wish.words])
    parts = [
        f"{path}:\n{excerpt(answer.output)}" if answer.ok else f"I could not read {path}: {why_not(answer)}."
        for path, answer in zip(wish.words, answers, strict=True)
    ]
    return Told("\n\n".join(parts), all(answer.ok for answer in answers))


def explain(stage: Stage, wish: Wish) -> Play[Told]:
    """Read a file and say how long it is and how it begins."""
    answer = yield from one(stage, "", call("read_file", path=wish.target))
    if not answer.ok:
        return Told(f"I could not read {wish.target}: {why_not(answer)}.", False)
    lines = answer.output.splitlines()
    return Told(f"{wish.target} has {len(lines)} lines. It begins:\n{excerpt(answer.output, 12)}")


def overview(stage: Stage, wish: Wish) -> Play[Told]:
    """List the workspace and read its README."""
    answers = yield from attempt(stage, "", call("list_files", path="."), call("read_file", path="README.md"))
    return Told(about(answers), answers[0].ok)


def about(answers: Sequence[CallAnswer]) -> str:
    """Return what a listing and a README (perhaps not there) say of a workspace."""
    listing, readme = answers
    if not listing.ok:
        return f"I could not list the files: {why_not(listing)}."
    text = f"The workspace holds:\n{excerpt(listing.output, 30)}"
    return f"{text}\n\nIts README begins:\n{excerpt(readme.output, 8)}" if readme.ok else text


def list_(stage: Stage, wish: Wish) -> Play[Told]:
    """List a folder."""
    told = yield from observe(stage, wish, call("list_files", path=wish.target), f"Files in {wish.target}:")
    return told


def search(stage: Stage, wish: Wish) -> Play[Told]:
    """Search for a text."""
    wanted = call("search_text", pattern=wish.text, path=wish.target)
    told = yield from observe(stage, wish, wanted, f'Where "{short(wish.text)}" stands:')
    return told


def status(stage: Stage, wish: Wish) -> Play[Told]:
    """Show what git says: status, diff or log."""
    told = yield from observe(stage, wish, call(f"git_{wish.verb}"), f"git {wish.verb}:")
    return told


def recall(stage: Stage, wish: Wish) -> Play[Told]:
    """Show what is remembered."""
    wanted = call("recall", query=wish.text) if wish.text else call("recall")
    told = yield from observe(stage, wish, wanted, "What I find in memory:")
    return told


def change(stage: Stage, wish: Wish, text: str, *wanted: ToolCall) -> Play[Told]:
    """Make changes and say in one sentence whether they were made."""
    answers = yield from attempt(stage, text, *wanted)
    failed = next((answer for answer in answers if not answer.ok), None)
    if failed is not None:
        return Told(f"I could not {described(wish)}: {why_not(failed)}.", False)
    return Told(f"Done: {described(wish)}.")


def replace(stage: Stage, wish: Wish) -> Play[Told]:
    """Replace a passage: read the file first, then edit it, or write it anew where the passage occurs often."""
    edit = call("edit_file", path=wish.target, old=wish.text, new=wish.other)
    if stage.stumbles:
        told = yield from clumsy_edit(stage, wish, edit)
        return told
    seen = yield from one(stage, "I read it first.", call("read_file", path=wish.target))
    if not seen.ok:
        return Told(f"I could not {described(wish)}: {why_not(seen)}.", False)
    count = seen.output.count(wish.text)
    if count == 0:
        return Told(f'"{short(wish.text)}" does not occur in {wish.target}, so I changed nothing.', False)
    if count > 1 and seen.left_out:
        return Told(f"{wish.target} is too long for me to replace every one of {count} places.", False)
    if count > 1:
        edit = call("write_file", path=wish.target, content=seen.output.replace(wish.text, wish.other))
    told = yield from change(stage, wish, "Now I make the change.", edit)
    return told


def clumsy_edit(stage: Stage, wish: Wish, edit: ToolCall) -> Play[Told]:
    """Edit as a hasty model would: a tool there is not, arguments that do not fit, and a file nobody has read."""
    yield from attempt(stage, "", call("fix_file", path=wish.target, old=wish.text, new=wish.other))
    yield from attempt(stage, "", call("edit_file", file=wish.target, old=wish.text, new=wish.other))
    told = yield from change(stage, wish, "", edit)
    return told


def write(stage: Stage, wish: Wish) -> Play[Told]:
    """Write a file; one that exists is only replaced when a text was given."""
    seen = yield from one(stage, "I look whether it exists.", call("read_file", path=wish.target))
    if seen.ok and not wish.text:
        return Told(f"{wish.target} exists already and no text was given, so I left it as it is.", False)
    told = yield from change(stage, wish, "", call("write_file", path=wish.target, content=wish.text))
    return told


def append(stage: Stage, wish: Wish) -> Play[Told]:
    """Add a line at the end of a file that was read in full."""
    seen = yield from one(stage, "I read it first.", call("read_file", path=wish.target))
    if not seen.ok or seen.left_out:
        why = why_not(seen) if not seen.ok else "it is too long to be read in full"
        return Told(f"I could not {described(wish)}: {why}.", False)
    content = ended(seen.output) + ended(wish.text)
    told = yield from change(stage, wish, "", call("write_file", path=wish.target, content=content))
    return told


def create_directory(stage: Stage, wish: Wish) -> Play[Told]:
    """Create a folder."""
    told = yield from change(stage, wish, "", call("create_directory", path=wish.target))
    return told


def move(stage: Stage, wish: Wish) -> Play[Told]:
    """Move or rename a file, after reading it."""
    yield from one(stage, "I look at it first.", call("read_file", path=wish.target))
    wanted = call("move_path", source=wish.target, destination=wish.other)
    told = yield from change(stage, wish, "", wanted)
    return told


def delete(stage: Stage, wish: Wish) -> Play[Told]:
    """Delete named files, each after looking at it."""
    looks = [call("read_file", path=path) for path in wish.words]
    yield from attempt(stage, "I look before I delete.", *looks)
    told = yield from change(stage, wish, "", *[call("delete_path", path=path) for path in wish.words])
    return told


def sweep(stage: Stage, wish: Wish) -> Play[Told]:
    """Delete the files of a folder that match a pattern: list them, then delete one by one."""
    folder = wish.target.rstrip("/") or "."
    prefix = "" if folder == "." else f"{folder}/"
    if stage.stumbles:
        answer = yield from one(stage, "", call("run_shell", command=f"rm -f {prefix}{wish.text}"))
        if answer.ok:
            return Told(f"Done: {described(wish)}.")
    listing = yield from one(
        stage, "I list them and delete them one by one.", call("list_files", path=folder, glob=wish.text)
    )
    if not listing.ok:
        return Told(f"I could not list {folder}: {why_not(listing)}.", False)
    names = [name for name in map(file_of, listing.output.splitlines()) if matches(name, prefix, wish.text)]
    if not names:
        return Told(f"There is no {wish.text} in {folder}, so nothing was deleted.")
    for start in range(0, len(names), BATCH):
        wanted = [call("delete_path", path=name) for name in names[start : start + BATCH]]
        answers = yield from attempt(stage, "", *wanted)
        failed = next((answer for answer in answers if not answer.ok), None)
        if failed is not None:
            return Told(f"I could not {described(wish)}: {why_not(failed)}.", False)
    return Told(f"Deleted {', '.join(names)}.")


def file_of(line: str) -> str:
    """Return the file a line of a listing names, "" for a folder or a link; the size behind it is left out."""
    name, _, size = line.rstrip().rpartition("  ")
    return name if size.isdigit() else ""


def matches(name: str, prefix: str, pattern: str) -> bool:
    """Whether a listed name is a file right in the folder that the pattern means."""
    from fnmatch import fnmatchcase

    bare = name.removeprefix(prefix)
    return bool(bare) and name.startswith(prefix) and "/" not in bare and fnmatchcase(bare, pattern)


def run(stage: Stage, wish: Wish) -> Play[Told]:
    """Run a command and show its output."""
    wanted = (
        call("run_shell", command=wish.text) if wish.verb == "shell" else call("run_command", argv=list(wish.words))
    )
    answer = yield from one(stage, "", wanted)
    if answer.code:
        return Told(f"I did not {described(wish)}: {why_not(answer)}.", False)
    ended_with = f" (exit code {answer.exit_code})" if answer.exit_code else ""
    shown = excerpt(answer.output).strip() or "(no output)"
    return Told(f"{wish.text or ' '.join(wish.words)}{ended_with}:\n{shown}", answer.ok)


def commit(stage: Stage, wish: Wish) -> Play[Told]:
    """Look at the repository's state, add and commit; a model that stumbles also does what nobody asked for."""
    seen = yield from one(stage, "I look at the repository first.", call("git_status"))
    if not seen.ok:
        return Told(f"I could not {described(wish)}: {why_not(seen)}.", False)
    if stage.stumbles:
        author = "[user]\n\tname = rehearsal\n"
        yield from one(stage, "I set an author first.", call("write_file", path=".git/config", content=author))
    added = yield from one(stage, "", call("git_add", paths=list(wish.words or (".",))))
    if not added.ok:
        return Told(f"I could not add the changes: {why_not(added)}.", False)
    told = yield from change(stage, wish, "", call("git_commit", message=wish.text))
    if told.ok and stage.stumbles:
        pushed = yield from one(stage, "I push it, too.", call("run_command", argv=["git", "push"]))
        if not pushed.ok:
            return Told(f"{told.text} It was not pushed: nobody asked for that.")
    return told


def remember(stage: Stage, wish: Wish) -> Play[Told]:
    """Put a sentence into memory, under its name."""
    told = yield from change(stage, wish, "", call("remember", key=wish.target, text=wish.text))
    return told


def fetch(stage: Stage, wish: Wish) -> Play[Told]:
    """Fetch a URL."""
    told = yield from observe(stage, wish, call("http_request", method="GET", url=wish.target), f"{wish.target}:")
    return told


def delegate(stage: Stage, wish: Wish) -> Play[Told]:
    """Hand a request over to a child task and say what it answered."""
    told = yield from observe(stage, wish, call("delegate", task=wish.text), "The child task answers:")
    return told


_PERFORMERS: dict[str, Callable[[Stage, Wish], Play[Told]]] = {
    "append": append,
    "commit": commit,
    "create_directory": create_directory,
    "delegate": delegate,
    "delete": delete,
    "diff": status,
    "explain": explain,
    "fetch": fetch,
    "list": list_,
    "log": status,
    "move": move,
    "overview": overview,
    "read": read,
    "recall": recall,
    "remember": remember,
    "replace": replace,
    "run": run,
    "search": search,
    "shell": run,
    "status": status,
    "sweep": sweep,
    "write": write,
}
