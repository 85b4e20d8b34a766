"""A line split into words as a shell would split it, and nothing else a shell does: what asks for more is refused."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""(?P<blank>(?:[ \t]|\\\r?\n)++)"""
    r"""|'(?P<single>[^']*+)'"""
    r"""|"(?P<double>(?:[^"\\]|\\.)*+)\""""
    r"""|\\(?P<escaped>.)"""
    r"""|(?P<operator>\r?\n|\$\(\(?|<\(|>\(|&&|\|\||\|&|<<<?|&?>>?|[0-9]>&?|[|&;<>()`])"""
    r"""|(?P<variable>\$(?!result_of_step_[0-9])[A-Za-z0-9_{@*#?$!-])"""
    r"""|(?P<plain>[^ \t\r\n'"\\|&;<>()`$0-9]++|[^'"\\])""",
    re.DOTALL,
)
_IN_DOUBLE = re.compile(r"""\\([\\"$`\n])|(\$(?!result_of_step_[0-9])[A-Za-z0-9_{(@*#?$!-]|`)|[^\\$`]++|.""", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ONE_EACH = "write one tag for each command, in the order they are to run"
_PIPE = "run the programs one by one, each with a tag of its own"
_REDIRECT = "write a file with a tag that writes files, and read one with a tag that reads them"
_SUBSTITUTE = "write the value itself, or single quotes around text that only looks like one"
_LONGEST = 80


class UnreadableTag(Exception):
    """What a tag holds cannot be read; the sentence is for the model and says what to do."""


def split_command(text: str, tag: str) -> list[str]:
    """Return the program and its arguments; raise UnreadableTag for what only a shell could do, with how to say it."""
    text = text.strip()
    found = _split(text, tag, refuse=True)
    first = _ASSIGNMENT.match(text)
    if first:
        raise _build_refusal(tag, first[0], "run the program `env` with it as first argument")
    return found


def split_words(text: str, tag: str) -> list[str]:
    """Return texts separated by blanks, with quotes around those that hold blanks; nothing else has a meaning."""
    return _split(text.strip(), tag, refuse=False)


def _split(text: str, tag: str, *, refuse: bool) -> list[str]:
    """Return the words of a text. With `refuse`, what only a shell understands is refused."""
    found: list[str] = []
    word: list[str] | None = None
    place = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            raise UnreadableTag(f"a quote or a backslash in `<{tag}>` has no second half; close it")
        place = token.end()
        kind, piece = token.lastgroup or "", token[token.lastgroup or 0]
        if kind == "blank" or (not refuse and kind == "operator" and piece.strip() == ""):
            if word is not None:
                found.append("".join(word))
            word = None
            continue
        if refuse:
            _refuse(kind, piece, tag, begins=word is None)
        word = [] if word is None else word
        word.append(_read_double_quoted(piece, tag, refuse=refuse) if kind == "double" else piece)
    if word is not None:
        found.append("".join(word))
    return found


def _read_double_quoted(text: str, tag: str, *, refuse: bool) -> str:
    """Return the text between double quotes; raise UnreadableTag where a shell would put something else there."""
    pieces = []
    for piece in _IN_DOUBLE.finditer(text):
        if piece[2] and refuse:
            raise _build_refusal(tag, piece[2], _SUBSTITUTE)
        pieces.append(piece[0] if piece[1] is None else piece[1].strip("\n"))
    return "".join(pieces)


def _refuse(kind: str, piece: str, tag: str, *, begins: bool) -> None:
    """Raise UnreadableTag for what asks for a shell."""
    if kind == "variable" or (kind == "operator" and piece[0] in "$`"):
        raise _build_refusal(tag, piece, _SUBSTITUTE)
    if kind == "operator" and piece.strip() == "":
        raise UnreadableTag(f"`<{tag}>` runs one program, and this is more than one line; {_ONE_EACH}")
    if kind == "operator" and piece in ("|", "|&"):
        raise _build_refusal(tag, piece, _PIPE)
    if kind == "operator":
        raise _build_refusal(tag, piece, _REDIRECT if "<" in piece or ">" in piece else _ONE_EACH)
    if kind == "plain" and begins and piece[0] == "#":
        raise _build_refusal(tag, "#", "leave comments out")


def _build_refusal(tag: str, piece: str, instead: str) -> UnreadableTag:
    return UnreadableTag(
        f"`<{tag}>` runs one program without a shell, so `{piece[:_LONGEST]}` has no meaning in it: {instead}; a line "
        "that needs a shell goes to `<run_shell>`, where there is that tool"
    )
