"""Commands that run the command their words name: `env`, `timeout`, `xargs`, `sh -c`, `find -exec` and the like."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from foregate.policy.risk.command_line import Segment, parse_command_line
from foregate.schemas.late_pattern import compile_late

_DEEPEST = 8
_SHELLS = ("sh", "bash", "dash", "ksh", "zsh", "ash")
# "-c", "-lc" in "bash -lc ls".
_LINE_OPTION = compile_late(r"-[a-z]*c[a-z]*")
# "LANG=" in "env LANG=C ls".
_ASSIGNED = compile_late(r"[A-Za-z_][A-Za-z0-9_]*=")
_FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")
UNREADABLE = Segment((None,))
"""A command nobody can know beforehand."""
UNREAD = Segment((None,), splits=True)
"""Whatever a text says that only the shell knows."""


class Wrapper(NamedTuple):
    """How the words of a wrapper end: options that take a value, and words in front of the command it runs.

    `more` tells that it adds words of its own to the command, `harmless` that it does nothing else.
    """

    valued: tuple[str, ...] = ()
    leading: int = 0
    more: bool = False
    harmless: bool = True


_WRAPPERS = {
    "env": Wrapper(("-u", "--unset")),
    "timeout": Wrapper(("-k", "-s", "--kill-after", "--signal"), 1),
    "time": Wrapper(),
    "nice": Wrapper(("-n", "--adjustment")),
    "ionice": Wrapper(("-c", "-n", "--class", "--classdata")),
    "nohup": Wrapper(),
    "stdbuf": Wrapper(("-i", "-o", "-e", "--input", "--output", "--error")),
    "setsid": Wrapper(),
    "command": Wrapper(),
    "builtin": Wrapper(),
    "exec": Wrapper(("-a",)),
    "xargs": Wrapper(("-I", "-n", "-P", "-d", "-L", "-s", "-E", "--max-args", "--max-procs", "--delimiter"), 0, True),
    "sudo": Wrapper(("-u", "-g", "--user", "--group"), harmless=False),
    "doas": Wrapper(("-u",), harmless=False),
}

_ITSELF = (("command", "-v"), ("command", "-V"))
"""Options with which a wrapper runs nothing."""
_UNKNOWN = tuple(
    [("env", option) for option in ("-C", "--chdir")]
    + [("time", "-o"), ("time", "--output"), ("xargs", "-a"), ("xargs", "--arg-file")]
)
"""Options by which it runs elsewhere, or writes to a file."""
# "-S", "--split-string=ls -l".
_SPLITS = compile_late(r"-[iv0]*S.*|--split-string.*", re.DOTALL)
"""The option by which `env` takes words out of a text by rules of its own."""


def unwrap_segment(segment: Segment, depth: int = 0) -> Iterator[Segment]:
    """Yield the commands a segment runs: itself, unless all it does is run another one.

    What is not understood is yielded as a command without a name.

    >>> [one.words for one in unwrap_segment(Segment(("timeout", "5", "sh", "-c", "ls; rm x")))]
    [('ls',), ('rm', 'x')]
    """
    name = segment.words[0] if segment.words else None
    if depth > _DEEPEST:
        yield UNREADABLE
    elif name in _SHELLS:
        yield segment._replace(words=(":",))
        yield from _unwrap_shell(segment, depth)
    elif name == "eval":
        words = segment.words[1:]
        line = None if None in words else " ".join(word for word in words if word is not None)
        yield from _unwrap_line(line, segment, depth)
    elif name == "find":
        yield segment
        yield from _unwrap_find(segment, depth)
    elif name in _WRAPPERS:
        yield from _unwrap_words(segment, _WRAPPERS[name], depth)
    else:
        yield segment


def _unwrap_shell(segment: Segment, depth: int) -> Iterator[Segment]:
    for at, word in enumerate(segment.words[1:], 1):
        if word is None or not word.startswith("-"):
            break
        if _LINE_OPTION.fullmatch(word):
            line = segment.words[at + 1] if at + 1 < len(segment.words) else None
            yield from _unwrap_line(line, segment, depth)
            return
    # A script, or its input.
    yield segment


def _unwrap_line(line: str | None, segment: Segment, depth: int) -> Iterator[Segment]:
    """Yield the commands of a line that a segment runs."""
    if line is None:
        yield UNREAD
        return
    parsed = parse_command_line(line, segment.folder, segment.input)
    if parsed.problem or any(writes_to_file(r.operator, r.target) for r in parsed.redirections):
        yield UNREADABLE
    for inner in parsed.segments:
        yield from unwrap_segment(inner, depth + 1)


def writes_to_file(operator: str, target: str | None) -> bool:
    """Whether a redirection writes to something else than nowhere, or to a stream that is open already."""
    if ">" not in operator or target == "/dev/null":
        return False
    return not (operator.endswith("&") and target is not None and (target == "-" or target.isdigit()))


def _unwrap_find(segment: Segment, depth: int) -> Iterator[Segment]:
    words = list(segment.words)
    while words:
        if words.pop(0) in _FIND_RUNS:
            end = next((at for at, word in enumerate(words) if word in (";", "+")), len(words))
            inner = tuple(None if word == "{}" else word for word in words[:end])
            yield from unwrap_segment(Segment(inner, None), depth + 1)
            del words[:end]


def _unwrap_words(segment: Segment, wrapper: Wrapper, depth: int) -> Iterator[Segment]:
    name, *words = segment.words
    variables, at, leading = [*segment.variables], 0, wrapper.leading
    while at < len(words) and (word := words[at]) is not None:
        if word.startswith("-") and word != "-":
            if (name, word) in _ITSELF:
                yield segment
                return
            if name == "env" and _SPLITS.fullmatch(word):
                yield UNREAD
                return
            if (name, word.partition("=")[0]) in _UNKNOWN:
                yield UNREADABLE
                return
            at += 1 + (word in wrapper.valued)
        elif name == "env" and _ASSIGNED.match(word):
            variables.append(word.partition("=")[0])
            at += 1
        elif leading:
            leading, at = leading - 1, at + 1
        else:
            break
    if not wrapper.harmless:
        yield UNREADABLE
    inner = (*words[at:], *((None,) if wrapper.more else ()))
    if words[at:]:
        given = "" if wrapper.more else segment.input
        yield from unwrap_segment(Segment(inner, segment.folder, tuple(variables), given), depth + 1)
    else:
        yield segment
