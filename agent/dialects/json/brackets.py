"""Where an object or a list of JSON ends, in a text that arrives in pieces."""

from __future__ import annotations

import re

_MARK = re.compile(r'["{}\[\]]')
_STRING = re.compile(r'(?:[^"\\]++|\\.)*+(")?', re.DOTALL)


class Brackets:
    """The brackets that are open at a place, which begins at an opening one; what stands in strings does not count."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False

    def scan(self, text: str, place: int) -> tuple[int, bool]:
        """Return up to where `text` was read from `place`, and whether the outermost bracket was closed there.

        Where it was not, everything is read but a backslash at the end, which waits for what it escapes.
        """
        while place < len(text):
            if self._in_string:
                string = _STRING.match(text, place)
                assert string is not None
                place = string.end()
                if string[1] is None:
                    break
                self._in_string = False
            mark = _MARK.search(text, place)
            if mark is None:
                return len(text), False
            place = mark.end()
            if mark[0] == '"':
                self._in_string = True
            else:
                self._depth += 1 if mark[0] in "{[" else -1
                if self._depth == 0:
                    return place, True
        return place, False


def find_json_end(text: str, start: int) -> int:
    """Return where the object or list that begins at `start` ends, -1 where it does not."""
    end, closed = Brackets().scan(text, start)
    return end if closed else -1
