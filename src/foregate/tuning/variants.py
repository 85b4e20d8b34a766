"""Other ways to write a call so that it does the same: quoting, wrappers, other tools, and Unicode."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.tuning.command_variants import split_plain, wrap_words, write_lines

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
    """Return the variants of a call; those of a tool nobody knows are none."""
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
