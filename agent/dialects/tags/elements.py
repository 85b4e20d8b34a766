"""What stands between the tags of a call: parameters as tags, JSON, or one bare text."""

from __future__ import annotations

import re
from collections.abc import Callable

from foregate.agent.dialects.tags.command_words import UnreadableTag
from foregate.agent.dialects.tags.parameters import Element, Shape
from foregate.agent.dialects.text.tag_scanner import Scanner, Tag
from foregate.agent.dialects.text.window import Waits

DEEPEST = 8
"""Tags in the value of a parameter, at most."""
Shapes = Callable[[str], Shape]
"""The shape of a call's parameter, by its name in the tag."""
_STRAY = re.compile(r"<{1,20}[^<>\n]{0,60}>?|[^<\n]{1,60}")


class UnclosedTag(Exception):
    """The text ended inside a tag; the name is that of the innermost one."""


class StrayContent(Exception):
    """Something else than a tag stands between the tags in the tag of this name."""


class BodyReader:
    """Reads what tags of calls hold. A tag that breaks the form is read to its end all the same, then refused."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner

    def read_call(self, tag: Tag, shapes: Shapes) -> Waits[Element]:
        """Read the rest of a call whose opening tag was read; raise UnreadableTag with its defect, or UnclosedTag."""
        if tag.kind == "whole":
            return Element(tag, children=())
        try:
            return (yield from self._read_body(tag, shapes))
        except StrayContent as stray:
            found = _STRAY.match((yield from self._read_text(tag)))
            raise UnreadableTag(
                f"in `<{stray}>` only tags may stand between tags, and not `{found[0] if found else ''}`: put it into "
                "the tag it belongs to, and content that holds closing tags into <![CDATA[ and ]]>"
            ) from None
        except UnreadableTag:
            yield from self._read_text(tag)
            raise

    def _read_body(self, tag: Tag, shapes: Shapes) -> Waits[Element]:
        if (yield from self._scanner.is_cdata_next()):
            return (yield from self._read_exact(tag))
        skip = yield from self._scanner.peek_past_blanks()
        first = yield from self._scanner.peek_tag(skip)
        if first is not None and (first.kind != "close" or first.name == tag.name):
            return (yield from self._read_parameters(tag, shapes))
        return Element(tag, (yield from self._read_text(tag)))

    def _read_parameters(self, tag: Tag, shapes: Shapes) -> Waits[Element]:
        """Read parameters, each in a tag, and the closing tag of the call."""
        children: list[Element] = []
        while (child := (yield from self._read_next_tag(tag))) is not None:
            children.append((yield from self._read_parameter(child, tag, shapes(child.name))))
        return Element(tag, children=tuple(children))

    def _read_next_tag(self, parent: Tag) -> Waits[Tag | None]:
        """Read the next opening tag in a tag, or its closing tag and return None."""
        window = self._scanner.window
        window.skip((yield from self._scanner.peek_past_blanks()))
        tag = yield from self._scanner.peek_tag()
        closing = tag is not None and tag.kind == "close"
        if tag is not None and (not closing or tag.name == parent.name):
            window.skip(len(tag.text))
            return None if closing else tag
        if not (yield from self._scanner.peek_character()):
            raise UnclosedTag(parent.name)
        raise StrayContent(parent.name)

    def _read_parameter(self, tag: Tag, call: Tag, shape: Shape) -> Waits[Element]:
        """Read what one parameter holds."""
        if tag.attributes:
            raise UnreadableTag(f"the tag `<{tag.name}>` in `<{call.name}>` takes no attributes; leave them out")
        return (yield from self._read_value(tag, call, shape, 0))

    def _read_value(self, tag: Tag, parent: Tag, shape: Shape, depth: int) -> Waits[Element]:
        """Read a tag in a tag; where the schema wants a list or an object, there may be tags in it."""
        if tag.kind == "whole":
            return Element(tag)
        if (yield from self._scanner.is_cdata_next()):
            return (yield from self._read_exact(tag))
        if not shape.may_be_text:
            skip = yield from self._scanner.peek_past_blanks()
            first = yield from self._scanner.peek_tag(skip)
            if first is not None and first.kind != "close":
                return (yield from self._read_tree(tag, shape, depth))
        return Element(tag, (yield from self._read_text(tag, parent.name if shape.is_literal else "")))

    def _read_tree(self, tag: Tag, shape: Shape, depth: int) -> Waits[Element]:
        """Read the tags in a parameter's value."""
        if depth >= DEEPEST:
            raise UnreadableTag(f"tags in `<{tag.name}>` nest deeper than {DEEPEST}; write the value as JSON")
        children: list[Element] = []
        while (child := (yield from self._read_next_tag(tag))) is not None:
            key = dict(child.attributes).get("name", child.name)
            children.append((yield from self._read_value(child, tag, shape.inner(key), depth + 1)))
        return Element(tag, children=tuple(children))

    def _read_exact(self, tag: Tag) -> Waits[Element]:
        """Read CDATA and the closing tag after it."""
        text, closed = yield from self._scanner.read_sections()
        if not closed:
            raise UnclosedTag(tag.name)
        end = yield from self._scanner.peek_tag()
        if end is not None and end.kind == "close" and end.name == tag.name:
            window = self._scanner.window
            window.skip(len(end.text))
            return Element(tag, text, exact=True)
        raise UnreadableTag(f"in `<{tag.name}>` text stands beside CDATA; put all of it into CDATA")

    def _read_text(self, tag: Tag, parent: str = "") -> Waits[str]:
        """Read up to a tag's closing tag and past it."""
        if tag.kind == "whole":
            return ""
        text, closed = yield from self._scanner.read_inside(tag.name, parent)
        if not closed:
            raise UnclosedTag(tag.name)
        return text


def describe_unclosed(tag: str, inner: str, raw: str) -> str:
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
