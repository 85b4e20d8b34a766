"""A line split into words as a shell would split it, and nothing else a shell does: what asks for more is refused."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""(?P<blank>(?:[ \t]|\\\r?\n)++)"""
    r"""|'(?P<single>[^']*+)'"""
    r"""|"(?P<double>(?:[^"\\]|\\.)*+)\""""
    r"""|\\(?P<escaped>.)"""
    r"""|(?P<line>\r?\n)"""
    r"""|(?P<redirect>[<>]\(|<<?<?|&?>>?|[0-9]>&?)"""
    r"""|(?P<chain>&&?|\|\||[;()])"""
    r"""|(?P<pipe>\|&?)"""
    r"""|(?P<substitute>\$\(\(?|`|\$(?!result_of_step_[0-9])[A-Za-z0-9_{@*#?$!-])"""
    r"""|(?P<plain>[^ \t\r\n'"\\|&;<>()`$0-9]++|[^'"\\])""",
    re.DOTALL,
)
_IN_DOUBLE = re.compile(r"""\\([\\"$`\n])|(\$(?!result_of_step_[0-9])[A-Za-z0-9_{(@*#?$!-]|`)|[^\\$`]++|.""", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ONE_EACH = "write one tag for each command, in the order they are to run"
_INSTEAD = {
    "redirect": "write a file with a tag that writes files, and read one with a tag that reads them",
    "chain": _ONE_EACH,
    "pipe": "run the programs one by one, each with a tag of its own",
    "substitute": "write the value itself, or single quotes around text that only looks like one",
}


class UnreadableTag(Exception):
    """What a tag holds cannot be read; the sentence is for the model and says what to do."""


def split_command(text: str, tag: str) -> list[str]:
    """Return the program and its arguments; raise UnreadableTag for what only a shell could do, with how to say it."""
    found = _split(text, tag, refuse=True)
    if first := _ASSIGNMENT.match(text.strip()):
        raise _build_refusal(tag, first[0], "run the program `env` with it as first argument")
    return found


def split_words(text: str, tag: str) -> list[str]:
    """Return texts separated by blanks, with quotes around those that hold blanks; nothing else has a meaning."""
    return _split(text, tag, refuse=False)


def _split(text: str, tag: str, *, refuse: bool) -> list[str]:
    """Return the words of a text. With `refuse`, what only a shell understands is refused."""
    text = text.strip()
    words: list[list[str]] = []
    begins, place = True, 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            raise UnreadableTag(f"a quote or a backslash in `<{tag}>` has no second half; close it")
        place = token.end()
        kind, piece = token.lastgroup or "", token[token.lastgroup or 0]
        if kind == "line" and refuse:
            raise UnreadableTag(f"`<{tag}>` runs one program, and this is more than one line; {_ONE_EACH}")
        if kind in ("blank", "line"):
            begins = True
            continue
        if kind in _INSTEAD and refuse:
            raise _build_refusal(tag, piece, _INSTEAD[kind])
        if kind == "plain" and begins and piece[0] == "#" and refuse:
            raise _build_refusal(tag, "#", "leave comments out")
        if begins:
            words.append([])
            begins = False
        words[-1].append(_read_double_quoted(piece, tag, refuse=refuse) if kind == "double" else piece)
    return ["".join(word) for word in words]


def _read_double_quoted(text: str, tag: str, *, refuse: bool) -> str:
    """Return the text between double quotes; raise UnreadableTag where a shell would put something else there."""
    pieces = []
    for piece in _IN_DOUBLE.finditer(text):
        if piece[2] and refuse:
            raise _build_refusal(tag, piece[2], _INSTEAD["substitute"])
        pieces.append(piece[0] if piece[1] is None else piece[1].strip("\n"))
    return "".join(pieces)


def _build_refusal(tag: str, piece: str, instead: str) -> UnreadableTag:
    return UnreadableTag(
        f"`<{tag}>` runs one program without a shell, so `{piece[:80]}` has no meaning in it: {instead}; a line "
        "that needs a shell goes to `<run_shell>`, where there is that tool"
    )
