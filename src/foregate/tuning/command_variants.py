"""Other ways to write a command so that it does the same: quoted, wrapped, handed to other programs, encoded."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterator, Sequence

from foregate.schemas.late_pattern import compile_late

_WRAPPERS = ("env", "nice", "nohup", "timeout 600", "setsid", "stdbuf -oL", "env nice", "find . -maxdepth 0 -exec")
_SPECIAL = "|&;<>()$`\\\"'\n*?[]{}~#!="
_PLAIN = compile_late(r"[\w./:@,+%-]+", re.ASCII)
_SUBCOMMAND = compile_late(r"[a-z][a-z-]*", re.ASCII)


def split_plain(line: str) -> list[str]:
    """Return the words of a line that is one plain command, none of any other."""
    return [] if any(character in line for character in _SPECIAL) else line.split()


def wrap_words(argv: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield ways to start a program through another one; without words there are none."""
    if not argv:
        return
    line, words = shlex.join(argv), json.dumps([*argv])
    for wrapper in _WRAPPERS:
        end = [";"] if wrapper.startswith("find") else []
        if not end or not {"{}", ";", "+"} & set(argv):
            yield wrapper, [*wrapper.split(), *argv, *end]
    yield "sh -c", ["sh", "-c", line]
    yield "bash -c", ["bash", "-c", line]
    yield "sh -c with $0", ["sh", "-c", '"$0" "$@"', *argv]
    yield "Python", ["python3", "-c", f"import os; w = {words}; os.execvp(w[0], w)"]
    yield "encoded Python", ["python3", "-c", f"import os, base64; os.system(base64.b64decode({_encode(line)!r}))"]
    yield "Perl", ["perl", "-e", "exec @ARGV", *argv]
    yield "awk", ["awk", f"BEGIN {{ exit system({json.dumps(line, ensure_ascii=False)}) }}"]
    if all(map(_PLAIN.fullmatch, argv)):
        yield "env -S", ["env", "-S", "\\_".join(argv)]
    if argv[0] == "git" and argv[1:] and _SUBCOMMAND.fullmatch(argv[1]):
        yield "a git alias", ["git", "-c", f"alias.so-named={argv[1]}", "so-named", *argv[2:]]
    if len(argv) > 1:
        last, first = shlex.quote(argv[-1]), shlex.join(argv[:-1])
        yield "xargs", ["sh", "-c", f"printf '%s\\0' {last} | xargs -0 {first}"]


def write_lines(line: str, argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield ways to write a line for a shell; those that take words apart only where `argv` are the words."""
    quoted, decoded = shlex.quote(line), f"echo {_encode(line)} | base64 -d"
    yield "a shell", line
    yield "eval", f"eval {quoted}"
    yield "a subshell", f"({line})"
    yield "behind true", f"true && {line}"
    yield "sh -c", f"sh -c {quoted}"
    yield "what a shell reads", f"printf '%s\\n' {quoted} | sh"
    yield "a here-document", f"sh <<'END_OF_LINE'\n{line}\nEND_OF_LINE"
    yield "base64", f"{decoded} | sh"
    yield "printf", f"printf '{_escape(line)}' | sh"
    yield "a decoded text", f'sh -c "$({decoded})"'
    yield "a decoded variable", f'x=$({decoded}); eval "$x"'
    yield "what a shell sources", f"{decoded} | . /dev/stdin"
    yield "a process substitution", f"bash -c {shlex.quote(f'bash <({decoded})')}"
    yield "a here-string", f"bash -c {shlex.quote(f'bash <<< {quoted}')}"
    if "\n" not in line:
        rule = f"x:;@{line.replace('$', '$$')}"
        yield "a makefile", f"printf '%s\\n' {shlex.quote(rule)} | make -sf -"
    if argv:
        yield from _write_words(line, argv, decoded)


def _write_words(line: str, argv: Sequence[str], decoded: str) -> Iterator[tuple[str, str]]:
    program, rest = argv[0], " ".join(shlex.quote(word) for word in argv[1:])
    if "'" not in line:
        yield "quotes", " ".join(f"'{word}'" for word in argv)
    if all(map(_PLAIN.fullmatch, argv)):
        yield "a substitution", f"$({decoded})"
        yield "a variable of words", f"x={shlex.quote(line)}; $x"
    if program.isalnum() and len(program) > 1:
        yield "a backslash", f"\\{program} {rest}"
        yield "quotes in a word", f"{program[0]}''{program[1:]} {rest}"
        yield "a variable", f"x={program}; $x {rest}"
        escaped = "".join(f"\\u{ord(character):04x}" for character in program)
        spelt = shlex.quote(f"$'{escaped}' {rest}")
        yield "Unicode escapes", f"bash -c {spelt}"


def _encode(line: str) -> str:
    return base64.b64encode(line.encode()).decode()


def _escape(line: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in line.encode())
