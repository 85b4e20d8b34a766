"""What a docstring says of a function and of each of its parameters, as Google, NumPy or Sphinx write it."""

from __future__ import annotations

import re

from foregate.schemas.late_pattern import compile_late

# "Args:".
_GOOGLE = compile_late(r"(?:Args|Arguments|Parameters|Params):\s*\Z")
_NUMPY = ("Parameters", "Other Parameters")
# "----------".
_UNDERLINE = compile_late(r"-{3,}\s*\Z")
# ":param str path: The file to read."
_FIELD = compile_late(r":(?:param|parameter|arg|argument)\s(?:[^:]*\s)?\*{0,2}(\w+)\s*:(.*)\Z")
# ":returns:", ":raises OSError:".
_OTHER_FIELD = compile_late(r":[a-z]+(?:\s[^:]*)?:")
# "path (str): The file to read."
_ENTRY = compile_late(r"\*{0,2}(\w+)(?:\s*\([^)]*\))?:(.*)\Z")
# "path : str", "old, new".
_NAMES = compile_late(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?\Z")


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the first paragraph of a cleaned docstring, and what it says of each parameter."""
    lines = text.splitlines()
    reader = _DocstringReader()
    summary: list[str] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        reader.read_line(line, underlined=_UNDERLINE.match(following) is not None)
        if reader.words:
            summary.append(line.strip())
    return " ".join(summary), {name: " ".join(pieces) for name, pieces in reader.notes.items() if any(pieces)}


class _DocstringReader:
    """Reads line by line. `words` is whether the last line still belonged to the first paragraph."""

    def __init__(self) -> None:
        self.words = True
        self.notes: dict[str, list[str]] = {}
        self._style, self._depth = "", 0
        self._names: list[str] = []

    def read_line(self, line: str, *, underlined: bool) -> None:
        """Take in a line; `underlined` says that dashes follow."""
        depth, said = len(line) - len(line.lstrip()), line.strip()
        if not said:
            self.words = False
        elif underlined:
            self._begin_section("numpy" if said in _NUMPY else "other")
        elif depth == 0 and _GOOGLE.match(said):
            self._begin_section("google")
        elif depth == 0 and (field := _FIELD.match(said)):
            self._begin_section("sphinx")
            self._begin_parameters([field[1]], field[2])
        elif depth == 0 and _OTHER_FIELD.match(said):
            self._begin_section("other")
        elif self._style:
            self._read_inside(said, depth)

    def _read_inside(self, said: str, depth: int) -> None:
        """Take in a line of a section: a parameter's own, or more about it."""
        if self._style == "numpy" and depth == 0:
            names = _NAMES.match(said)
            self._begin_parameters(re.findall(r"\w+", names[1]) if names else [])
        elif depth == 0:
            self._begin_section("other")
        elif self._style == "google" and depth <= (self._depth or depth) and (entry := _ENTRY.match(said)):
            self._depth = depth
            self._begin_parameters([entry[1]], entry[2])
        else:
            for name in self._names:
                self.notes[name].append(said)

    def _begin_section(self, style: str) -> None:
        self.words = False
        self._style, self._depth, self._names = style, 0, []

    def _begin_parameters(self, names: list[str], said: str = "") -> None:
        self._names = names
        for name in names:
            self.notes[name] = [said.strip()] if said.strip() else []
