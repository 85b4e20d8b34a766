"""Other ways to write a call so that it does the same: quoting, wrappers, encodings, other tools, and Unicode."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall

_WRAPPERS = ("env", "nice", "nohup", "timeout 600", "setsid", "stdbuf -oL", "env nice", "find . -maxdepth 0 -exec")
_SPECIAL = "|&;<>()$`\\\"'\n*?[]{}~#!="
# "src/a.py", "--depth=1": what a shell reads as itself.
_PLAIN = compile_late(r"[\w./:@,+%-]+", re.ASCII)
# "commit", "rev-parse".
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


_WIDE = {chr(code): chr(code + 0xFEE0) for code in range(ord("a"), ord("z") + 1)}
"""Letters of full width, which every host name maps to plain ones."""
_STARTING = ("run_command", "run_tests", "run_build")
_PATHS = ("path", "source", "destination")


class Variant(NamedTuple):
    """A call that does what another one does, and by which means it is written otherwise."""

    how: str
    tool: str
    arguments: Mapping[str, Json]


def list_variants(call: ToolCall) -> list[Variant]:
    """Return the variants of a call; an unknown tool has none."""
    if call.arguments is None:
        return []
    found = [*_vary_command(call.name, call.arguments), *_vary_tool(call.name, call.arguments)]
    found += [*_vary_paths(call.name, call.arguments), *_vary_address(call.name, call.arguments)]
    same = (call.name, dict(call.arguments))
    return [one for one in found if (one.tool, dict(one.arguments)) != same]


def _vary_command(tool: str, arguments: Mapping[str, Json]) -> Iterator[Variant]:
    """Yield variants of what starts a program by its words, or a line of a shell."""
    rest = {key: value for key, value in arguments.items() if key == "cwd"}
    words, line = arguments.get("argv"), arguments.get("command")
    if tool in _STARTING and isinstance(words, (list, tuple)) and words and all(isinstance(w, str) for w in words):
        argv = [str(word) for word in words]
        for how, wrapped in wrap_words(argv):
            yield Variant(how, "run_command", {"argv": wrapped, **rest})
        for how, written in write_lines(shlex.join(argv), argv):
            yield Variant(how, "run_shell", {"command": written, **rest})
    elif tool == "run_shell" and isinstance(line, str):
        yield Variant("sh -c", "run_command", {"argv": ["sh", "-c", line], **rest})
        yield Variant("bash -c", "run_command", {"argv": ["bash", "-c", line], **rest})
        for how, wrapped in wrap_words(split_plain(line)):
            yield Variant(how, "run_command", {"argv": wrapped, **rest})
        for how, written in write_lines(line, split_plain(line)):
            yield Variant(how, "run_shell", {"command": written, **rest})


def _vary_tool(tool: str, arguments: Mapping[str, Json]) -> Iterator[Variant]:
    """Yield the command, or the other tool, that does what a tool does."""
    path, to = arguments.get("path"), arguments.get("destination")
    source, content, url = (arguments.get(key) for key in ("source", "content", "url"))
    argv: list[str] = []
    if tool == "delete_path" and isinstance(path, str):
        argv = ["rm", "-r", "--", path] if arguments.get("recursive") is True else ["rm", "--", path]
    elif tool == "move_path" and isinstance(source, str) and isinstance(to, str):
        argv = ["mv", "--", source, to]
    elif tool == "read_file" and isinstance(path, str):
        argv = ["cat", "--", path]
    elif tool == "create_directory" and isinstance(path, str):
        argv = ["mkdir", "-p", "--", path]
    elif tool == "http_request" and isinstance(url, str) and arguments.get("method", "GET") == "GET":
        argv = ["curl", "-s", url]
    elif tool == "write_file" and isinstance(path, str) and isinstance(content, str):
        line = f"printf %s {shlex.quote(content)} > {shlex.quote(path)}"
        yield Variant("another tool", "run_shell", {"command": line})
    if argv:
        yield Variant("another tool", "run_command", {"argv": argv})
        yield Variant("another tool", "run_shell", {"command": shlex.join(argv)})


def _vary_paths(tool: str, arguments: Mapping[str, Json]) -> Iterator[Variant]:
    """Yield other names of the same paths."""
    for key in _PATHS:
        value = arguments.get(key)
        if isinstance(value, str) and value and not value.startswith("/"):
            for how, named in (("./ before a path", f"./{value}"), ("a path with //", f".//{value}")):
                yield Variant(how, tool, {**arguments, key: named})


def _vary_address(tool: str, arguments: Mapping[str, Json]) -> Iterator[Variant]:
    """Yield other spellings of the same address, in capitals, with a dot at its end, and in letters of full width."""
    url = arguments.get("url")
    if not isinstance(url, str):
        return
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    except ValueError:
        return
    wide = "".join(_WIDE.get(character, character) for character in host)
    for how, named in (("a host in capitals", host.upper()), ("a dot behind a host", f"{host}."), ("Unicode", wide)):
        yield Variant(how, tool, {**arguments, "url": urlunsplit(parts._replace(netloc=f"{named}{port}"))})
    yield Variant("a fragment", tool, {**arguments, "url": f"{url.partition('#')[0]}#x"})
