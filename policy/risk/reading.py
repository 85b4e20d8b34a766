"""What to expect of a command, read from its words: does it only read, what does it name, what does it want outside.

The sandbox holds what the words only announce. A command that is misread fails there, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any, Literal, NamedTuple

import re2
from msgspec.structs import replace

from foregate.policy.commands_section import ReadEntry
from foregate.policy.policy import Policy
from foregate.policy.risk import commands
from foregate.policy.risk.access import find_access
from foregate.policy.risk.command_line import (
    STREAM,
    CommandLine,
    Redirection,
    Segment,
    join_folder,
    parse_command_line,
)
from foregate.policy.risk.request import remember
from foregate.policy.risk.wrapped import unwrap_segment, writes_to_file
from foregate.schemas.sandbox import Access
from foregate.schemas.tool_call import Command, Tier

Answer = Literal["read", "work", "outside"]
_TIERS: tuple[Literal["", Tier], ...] = ("", "none", "limited", "full")
_MOST = 256
"""Simple commands of one line that are looked at."""
_STEERING = ("PATH", "ENV", "BASH_ENV", "IFS")
_STEERING_STARTS = ("LD_", "DYLD_", "GIT_", "PYTHON")
"""Variables that decide which program runs, or what it runs first."""
_HARMLESS_VARIABLES = ("GIT_PAGER", "GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT")
_GIT_FOLDER, _GIT_SETTING = "-C", "-c"
_GIT_SETTINGS = ("color.", "column.", "core.quotepath=", "core.pager=cat")
_GIT_OPTIONS = ("--no-pager", "-P", "--paginate", "-p", "--literal-pathspecs", "--no-optional-locks")
_SOURCE = (".", "source")
_FIND_SAYS = ("-", "(", "!")
_LONGEST_KEY = 3
"""Words of a key of `commands.reads`."""


class CommandReading(NamedTuple):
    """What is expected of a command: the worst of what its parts are, from `read` over `work` to `outside`.

    `segments` are its simple commands with wrappers taken off, `operands` the paths they name, relative to where it
    runs, and `texts` what they name that need be no path. `reason` says why it is no read, "" where it is one. `checks`
    says that it tests, checks or builds a project and otherwise only reads.
    """

    answer: Answer
    segments: tuple[Segment, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    access: tuple[Access, ...] = ()
    operands: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    reason: str = ""
    checks: bool = False

    @property
    def programs(self) -> list[str]:
        """What its simple commands run, where that is known."""
        return [name for segment in self.segments for name in segment.words[:1] if name]


def is_read(command: Command, policy: Policy, tier: Literal["", Tier]) -> bool:
    """Whether a command only reads: by `commands.reads` where `tier` holds it, else by the short list."""
    return not commands.effect_of_command(command, policy).changes or is_held_read(command, policy, tier)


def is_held_read(command: Command, policy: Policy, tier: Literal["", Tier]) -> bool:
    """Whether a command only reads by `commands.reads`, and `tier` can hold it to that."""
    held = _TIERS.index(tier) >= _TIERS.index(policy.commands.confinement.read)
    return held and read_command_line(command, policy).answer == "read"


def is_held_work(command: Command, policy: Policy, tier: Literal["", Tier]) -> bool:
    """Whether a command can be held to changing a copy of the workspace: `tier` does it, and it wants no more."""
    return can_hold_work(policy, tier) and read_command_line(command, policy).answer == "work"


def can_hold_work(policy: Policy, tier: Literal["", Tier]) -> bool:
    """Whether commands that change something run in a sandbox, also those that are given access to more."""
    return _TIERS.index(tier) >= _TIERS.index(policy.commands.confinement.work)


def read_command_line(command: Command, policy: Policy) -> CommandReading:
    """Return what is expected of a command, also of one that cannot be understood; nothing raises."""
    return _read_words(replace(command, folder="", there=(), scripts=""), policy)


@remember
def _read_words(command: Command, policy: Policy) -> CommandReading:
    line = _parse(command)
    segments = [inner for segment in line.segments for inner in unwrap_segment(segment)][: _MOST + 1]
    reasons = [command.problem, line.problem, "" if 0 < len(segments) <= _MOST else "it runs nothing, or too much"]
    reasons += (
        f"it writes to `{r.target or 'a file'}`" for r in line.redirections if writes_to_file(r.operator, r.target)
    )
    own = {(f,) for f in line.functions}
    changes = {s: change for s in segments if s.words[:1] not in own and (change := _find_change(s, policy))}
    checks = bool(changes) and not any(reasons) and all(is_check(segment, policy) for segment in changes)
    reason = next(filter(None, (*reasons, *changes.values())), "")
    wanted = {one for segment in segments for one in find_access(segment, policy)}
    access = tuple(sorted({*command.access, *wanted}))
    named = [list_operands(segment, policy) for segment in segments]
    inputs = [_place(r.target, r.folder) for r in line.redirections if r.operator == "<"]
    return CommandReading(
        "outside" if access else "work" if reason else "read",
        tuple(segments),
        line.redirections,
        access,
        tuple(dict.fromkeys(path for path in (*inputs, *(p for paths, _ in named for p in paths)) if path)),
        tuple(dict.fromkeys(path for _, texts in named for path in texts if path)),
        reason,
        checks and not access,
    )


def is_check(segment: Segment, policy: Policy) -> bool:
    """Whether a simple command tests, checks or builds a project, and neither a word that is known only when it runs
    nor a variable decides what that is."""
    words = [word for word in segment.words if word is not None]
    if len(words) < len(segment.words) or any(map(_is_steering, segment.variables)):
        return False
    return any(commands.has_words_at(entry.split(), words) for entry in policy.commands.checks)


def has_leading_words(reading: CommandReading, entries: Iterable[str]) -> bool:
    """Whether one of the simple commands begins with the words of an entry; options may stand in between."""
    lines = [[word or "" for word in segment.words] for segment in reading.segments]
    return any(commands.has_words_at(entry.split(), words) for entry in entries for words in lines)


def list_scripts(reading: CommandReading, policy: Policy) -> Iterator[list[str]]:
    """Yield words that may name what a command runs, relative to where it runs; of each list the first file does.

    These are programs with a path, what a line names in which something may run whatever it is given, and the files by
    which a tool such as make knows what to run.

    >>> from foregate.policy.source.load import default_policy
    >>> line = read_command_line(Command(shell="cd sub && bash -o posix build.sh"), default_policy())
    >>> [*list_scripts(line, default_policy())]
    [['sub'], ['sub/posix', 'sub/build.sh']]
    """
    runs_any = any(p in _SOURCE or commands.is_open_ended([p], policy) for p in reading.programs)
    for words, folder, *_ in reading.segments:
        program = [word for word in words[:1] if word and "/" in word]
        named = [word for word in words[1:] if word and not word.startswith("-")] if runs_any else []
        yield from ([_place(word, folder or "") for word in part] for part in (program, named) if part)
        for leading, files in policy.commands.scripts.items():
            if commands.has_words_at(leading.split(), [word or "" for word in words]):
                yield [_place(name, folder or "") for name in files]
    if runs_any:
        yield from ([_place(r.target, r.folder or "")] for r in reading.redirections if r.operator == "<")


def list_git_folders(reading: CommandReading) -> list[str]:
    """Return the folders whose repositories the git commands of a reading look at, where they are known."""
    found = (split_git(segment)[0] for segment in reading.segments if segment.words[:1] == ("git",))
    return list(dict.fromkeys(folder for folder in found if folder is not None))


def _parse(command: Command) -> CommandLine:
    if command.shell or not command.argv:
        return parse_command_line(command.shell)
    words = command.argv
    many = "a word of it is for a shell" if any(map(_is_for_shell, words)) and words[0] != "find" else ""
    return CommandLine((Segment(words),), problem=many)


def _is_for_shell(word: str) -> bool:
    return word in commands.OPERATORS or "\0" in word


def split_git(segment: Segment) -> tuple[str | None, tuple[str | None, ...] | None]:
    """Return the folder git works in and its words from the subcommand on, None for options that lead elsewhere."""
    folder, words = segment.folder, list(segment.words[1:])
    while words and words[0] is not None and words[0].startswith("-"):
        option = words.pop(0)
        if option == _GIT_FOLDER and words:
            folder = join_folder(folder, words.pop(0))
        elif option == _GIT_SETTING and words and (words[0] or "").casefold().startswith(_GIT_SETTINGS):
            words.pop(0)
        elif option not in _GIT_OPTIONS:
            return folder, (option,) if not words else None
    return folder, tuple(words)


def _find_change(segment: Segment, policy: Policy) -> str:
    """Return why a command is no read, "" where it is one."""
    if not segment.words or (name := segment.words[0]) is None:
        return "what it runs is known only when it runs"
    if "/" in name:
        return f"`{name[:80]}` is named by a path"
    if variable := next(filter(_is_steering, segment.variables), ""):
        return f"it sets `{variable[:80]}`"
    if len(segment.words) == 2 and segment.words[1] in policy.commands.about:
        return ""
    entry, rest = _find_entry(segment, policy)
    if entry is None:
        return f"`{name[:80]}` is not known to only read"
    return _find_working_word(entry, rest, name)


def _is_steering(variable: str) -> bool:
    starts = variable in _STEERING or variable.startswith(_STEERING_STARTS)
    return starts and variable not in _HARMLESS_VARIABLES


def _find_entry(segment: Segment, policy: Policy) -> tuple[ReadEntry | None, tuple[str | None, ...]]:
    """Return the entry that knows a command by its leading words, and the words behind these."""
    words: tuple[str | None, ...] | None = segment.words
    if segment.words[0] == "git":
        inner = split_git(segment)[1]
        words = None if inner is None else ("git", *inner)
    for size in range(min(_LONGEST_KEY, len(words or ())), 0, -1):
        leading = [word for word in (words or ())[:size] if word is not None]
        entry = policy.commands.reads.get(" ".join(leading)) if len(leading) == size else None
        if entry is not None:
            return entry, (words or ())[size:]
    return None, ()


def _find_working_word(entry: ReadEntry, rest: Sequence[str | None], name: str) -> str:
    known = [word for word in rest if word is not None]
    for word in known:
        if any(_is_option(option, word) for option in entry.work):
            return f"`{word[:80]}` makes `{name}` change something"
        if any(_compile(pattern).search(word) for pattern in entry.patterns):
            return f"`{name}` is told to change something by `{word[:80]}`"
    count = sum(1 for _ in _iterate_operands(entry, rest))
    beside = any(_is_option(option, word) for option in entry.beside for word in known)
    if entry.operands is not None and count > entry.operands and not beside:
        return f"`{name}` changes something when it is given that many words"
    return ""


@lru_cache(maxsize=256)
def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def _is_option(option: str, word: str) -> bool:
    """Whether a word is an option, also abbreviated, with its value attached, or among other letters (`-ni`)."""
    if word == option:
        return True
    if option.startswith("--"):
        short = word.partition("=")[0]
        return len(short) > 3 and option.startswith(short)
    if len(option) != 2 or not option.startswith("-") or word.startswith("--"):
        return False
    letters = word[1:].partition(option[1])[0]
    return word.startswith("-") and word[1:] != letters and (not letters or letters.isalpha())


def _iterate_operands(entry: ReadEntry | None, words: Sequence[str | None]) -> Iterator[str | None]:
    """Yield the words that are neither options nor the values of such."""
    rest = iter(words)
    for word in rest:
        if word == "--":
            yield from rest
        elif entry is not None and word in entry.valued:
            next(rest, None)
        elif word is None or not word.startswith("-") or word == "-":
            yield word


def list_operands(segment: Segment, policy: Policy) -> tuple[list[str], list[str]]:
    """Return the operands of a command that are paths, and those that may be something else."""
    if not segment.words or segment.words[0] is None:
        return [], []
    entry, rest = _find_entry(segment, policy)
    folder = split_git(segment)[0] if segment.words[0] == "git" else segment.folder
    words = rest if entry is not None else segment.words[1:]
    # Its folders stand in front of what it looks for.
    if segment.words[0] == "find":
        words = tuple(takewhile(lambda word: word is None or not word.startswith(_FIND_SAYS), words))
    found = list(_iterate_operands(entry, words))
    texts = (entry.texts or 0) if entry is not None else 0
    if entry is not None and any(_is_option(option, word or "") for option in entry.instead for word in rest):
        texts = 0
    # A commit, a branch or a path; `HEAD:a.py` is a path of a commit.
    if segment.words[0] == "git":
        found += [word.partition(":")[2] for word in found if word and ":" in word]
        texts = len(found)
    placed = [_place(word, folder) for word in found]
    return [path for path in placed[texts:] if path], [path for path in placed[:texts] if path]


def _place(word: str | None, folder: str | None) -> str:
    """Return a path relative to where the line runs, "" for what is none or not known."""
    if not word or word in ("-", "/dev/null", "/dev/stdin") or word.startswith(STREAM) or "\0" in word:
        return ""
    return join_folder(folder, word) or ""
