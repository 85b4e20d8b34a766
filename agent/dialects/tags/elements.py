"""What stands between the tags of a call: parameters as tags, JSON, or one bare text."""

from __future__ import annotations

import re
from collections.abc import Callable

from foregate.agent.dialects.tags.command_words import Unreadable
from foregate.agent.dialects.tags.parameters import Element, Shape
from foregate.agent.dialects.text.tag_scanner import Scanner, Tag
from foregate.agent.dialects.text.window import Waits

DEEPEST = 8
"""Tags in the value of a parameter, at most."""
Shapes = Callable[[str], Shape]
"""The shape of a call's parameter, by its name in the tag."""
_STRAY = re.compile(r"<{1,20}[^<>\n]{0,60}>?|[^<\n]{1,60}")


class Cut(Exception):
    """The text ended inside a tag; the name is that of the innermost one."""


class Stray(Exception):
    """Something else than a tag stands between the tags in the tag of this name."""


class Bodies:
    """Reads what tags of calls hold. A tag that breaks the form is read to its end all the same, then refused."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner

    def call(self, tag: Tag, shapes: Shapes) -> Waits[Element]:
        """Read the rest of a call whose opening tag was read; raise Unreadable with its defect, or Cut."""
        if tag.kind == "whole":
            return Element(tag, children=())
        try:
            return (yield from self._body(tag, shapes))
        except Stray as stray:
            found = _STRAY.match((yield from self._text(tag)))
            raise Unreadable(
                f"in `<{stray}>` only tags may stand between tags, and not `{found[0] if found else ''}`: put it into "
                "the tag it belongs to, and content that holds closing tags into <![CDATA[ and ]]>"
            ) from None
        except Unreadable:
            yield from self._text(tag)
            raise

    def _body(self, tag: Tag, shapes: Shapes) -> Waits[Element]:
        if (yield from self._scanner.see_cdata()):
            return (yield from self._exact(tag))
        skip = yield from self._scanner.see_blanks()
        first = yield from self._scanner.see_tag(skip)
        if first is not None and (first.kind != "close" or first.name == tag.name):
            return (yield from self._parameters(tag, shapes))
        return Element(tag, (yield from self._text(tag)))

    def _parameters(self, tag: Tag, shapes: Shapes) -> Waits[Element]:
        """Read parameters, each in a tag, and the closing tag of the call."""
        children: list[Element] = []
        while (child := (yield from self._next(tag))) is not None:
            children.append((yield from self._parameter(child, tag, shapes(child.name))))
        return Element(tag, children=tuple(children))

    def _next(self, parent: Tag) -> Waits[Tag | None]:
        """Read the next opening tag in a tag, or its closing tag and return None."""
        window = self._scanner.window
        window.skip((yield from self._scanner.see_blanks()))
        tag = yield from self._scanner.see_tag()
        closing = tag is not None and tag.kind == "close"
        if tag is not None and (not closing or tag.name == parent.name):
            window.skip(len(tag.text))
            return None if closing else tag
        if not (yield from self._scanner.see_character()):
            raise Cut(parent.name)
        raise Stray(parent.name)

    def _parameter(self, tag: Tag, call: Tag, shape: Shape) -> Waits[Element]:
        """Read what one parameter holds."""
        if tag.attributes:
            raise Unreadable(f"the tag `<{tag.name}>` in `<{call.name}>` takes no attributes; leave them out")
        return (yield from self._value(tag, call, shape, 0))

    def _value(self, tag: Tag, parent: Tag, shape: Shape, depth: int) -> Waits[Element]:
        """Read a tag in a tag; where the schema wants a list or an object, there may be tags in it."""
        if tag.kind == "whole":
            return Element(tag)
        if (yield from self._scanner.see_cdata()):
            return (yield from self._exact(tag))
        if not shape.text:
            skip = yield from self._scanner.see_blanks()
            first = yield from self._scanner.see_tag(skip)
            if first is not None and first.kind != "close":
                return (yield from self._tree(tag, shape, depth))
        return Element(tag, (yield from self._text(tag, parent.name if shape.literal else "")))

    def _tree(self, tag: Tag, shape: Shape, depth: int) -> Waits[Element]:
        """Read the tags in a parameter's value."""
        if depth >= DEEPEST:
            raise Unreadable(f"tags in `<{tag.name}>` nest deeper than {DEEPEST}; write the value as JSON")
        children: list[Element] = []
        while (child := (yield from self._next(tag))) is not None:
            key = dict(child.attributes).get("name", child.name)
            children.append((yield from self._value(child, tag, shape.inner(key), depth + 1)))
        return Element(tag, children=tuple(children))

    def _exact(self, tag: Tag) -> Waits[Element]:
        """Read CDATA and the closing tag after it."""
        text, closed = yield from self._scanner.sections()
        if not closed:
            raise Cut(tag.name)
        end = yield from self._scanner.see_tag()
        if end is not None and end.kind == "close" and end.name == tag.name:
            window = self._scanner.window
            window.skip(len(end.text))
            return Element(tag, text, exact=True)
        raise Unreadable(f"in `<{tag.name}>` text stands beside CDATA; put all of it into CDATA")

    def _text(self, tag: Tag, parent: str = "") -> Waits[str]:
        """Read up to a tag's closing tag and past it."""
        if tag.kind == "whole":
            return ""
        text, closed = yield from self._scanner.inside(tag.name, parent)
        if not closed:
            raise Cut(tag.name)
        return text


def unclosed(tag: str, inner: str, raw: str) -> str:
    """Return the defect of a call, `raw` as written, that the response ended in; `inner` is the tag it ended in."""
    for name in dict.fromkeys((tag, inner)):
        closing = re.finditer(rf"</({re.escape(name)})\s*+>", raw, re.IGNORECASE | re.ASCII)
        if other := next((found[1] for found in closing if found[1] != name), ""):
            return (
                f"`</{other}>` does not close `<{name}>`, since capitals count in a closing tag, so nothing of it was "
                f"done; send it again, closed by `</{name}>`"
            )
    where = f"`<{tag}>`" if inner == tag else f"`<{inner}>` in `<{tag}>`"
    return (
        f"the response ended before {where} was closed, so nothing of it was done; send it again, whole, and content "
        "that holds such tags itself in <![CDATA[ and ]]>"
    )
