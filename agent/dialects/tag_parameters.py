"""What the text in a tag means as an argument, by the tool's JSON Schema.

Plain text (`content`, `message`) is taken literally, but for one rule about line breaks. Everything short decodes the
five entities of XML and loses the blanks around it: what names a resource, has a format or a list of values, and what
is no text at all. What stood in CDATA is text as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from foregate.agent.dialects.window import Tag, Waits, Window, decode_entities
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json, get_list, get_object
from foregate.schemas.tool_spec import ResourceKind, ToolSpec

# "'two words'", '"two words"'.
_TOKEN = compile_late(
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
# '\$' stands for "$"; "$HOME" would be computed by a shell.
_IN_DOUBLE = compile_late(
    r"""\\([\\"$`\n])|(\$(?!result_of_step_[0-9])[A-Za-z0-9_{(@*#?$!-]|`)|[^\\$`]++|.""", re.DOTALL
)
# "LANG=C".
_ASSIGNMENT = compile_late(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
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


_SHORT_KEYS = ("enum", "const", "format", "pattern")
# "\n" behind an opening tag: it is layout, and no part of the value.
_FIRST_BREAK = compile_late(r"\r?\n")
# "\n  " before a closing tag: the blanks indent the tag.
_LAST_LINE = compile_late(r"(?<=\n)[ \t]+\Z")
# "$result_of_step_1.path".
_PLACE = compile_late(r"\s*\$result_of_step_[0-9]+[^\s]*\s*\Z")
_KINDS: Mapping[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}
_DEEPEST_SCHEMA = 4


class Element(Struct):
    """What was read of a tag: its text, or the tags in it. `exact` text stood in CDATA."""

    tag: Tag
    text: str = ""
    exact: bool = False
    children: tuple[Element, ...] | None = None


class Shape(Struct, frozen=True):
    """What a schema asks of a value. `short` names a resource, `command` is a program with its arguments."""

    schema: Json
    root: Json
    short: bool = False
    command: bool = False

    @property
    def types(self) -> set[str]:
        """The JSON types the schema allows; none where it says nothing about types."""
        return _types(self.schema, self.root)

    @property
    def may_be_text(self) -> bool:
        """Whether a text is among what is allowed."""
        return not self.types or "string" in self.types

    @property
    def is_literal(self) -> bool:
        """Whether text is taken as it is."""
        keys = self.schema if isinstance(self.schema, Mapping) else {}
        return self.may_be_text and not self.short and not any(key in keys for key in _SHORT_KEYS)

    def inner(self, name: str) -> Shape:
        """Return the shape of an item, or of the property of that name."""
        schema = _resolve_reference(self.schema, self.root)
        schema = schema if isinstance(schema, Mapping) else {}
        if "array" in self.types and "object" not in self.types:
            return Shape(schema.get("items", {}), self.root, self.short)
        known = get_object(schema, "properties")
        return Shape(known.get(name, schema.get("additionalProperties", {})), self.root, self.short)


def build_shape(spec: ToolSpec | None, name: str) -> Shape:
    """Return the shape of a tool's parameter; of one there is not, or of an unknown tool, that of any text."""
    if spec is None:
        return Shape({}, {})
    kinds = {target.parameter: target.kind for target in spec.targets}
    schema = get_object(spec.parameters, "properties").get(name, {})
    command = kinds.get(name) is ResourceKind.PROCESS and "array" in _types(schema, spec.parameters)
    return Shape(schema, spec.parameters, name in kinds, command)


def read_value(element: Element, shape: Shape, tag: str) -> Json:
    """Return the argument an element means; raise UnreadableTag with a sentence for the model. `tag` is the call's."""
    if element.children is not None:
        return _read_children(element, element.children, shape, tag)
    if shape.is_literal and not element.exact:
        return strip_first_break(element.text)
    if shape.may_be_text:
        return element.text if element.exact else decode_entities(element.text.strip())
    text = element.text.strip()
    return _read_typed_value(text if element.exact else decode_entities(text), shape, tag)


def read_list(text: str, shape: Shape, tag: str) -> Json:
    """Return the list that words mean; a place for a result stays, which may become one."""
    if _PLACE.match(text):
        return text
    return split_command(text, tag) if shape.command else split_words(text, tag)


def strip_first_break(text: str) -> str:
    """Return the content of a tag: without a line break right after the opening tag.

    Where there was one, blanks before a closing tag on a line of its own are no content either; the line break before
    them is, so that what is written as lines ends as lines do.
    """
    first = _FIRST_BREAK.match(text)
    return _LAST_LINE.sub("", text)[first.end() :] if first else text


def _read_typed_value(text: str, shape: Shape, tag: str) -> Json:
    """Return a value that is no text; what cannot be read as one stays text, for the check of the schema to refuse."""
    if text[:1] in ("[", "{") and {"array", "object"} & shape.types:
        try:
            return strict_json.parse(text)
        except InvalidJson as error:
            raise UnreadableTag(f"the JSON in `<{tag}>` cannot be read: {error}") from None
    if "array" in shape.types:
        return split_command(text, tag) if shape.command else read_list(text, shape, tag)
    try:
        # Models also write truth values as Python does.
        value = strict_json.parse(text.lower() if text in ("True", "False") else text)
    except InvalidJson:
        return text
    kinds = tuple(kind for name in shape.types for kind in _KINDS.get(name, ()))
    # To Python a truth value is an integer as well.
    fits = isinstance(value, kinds) and (not isinstance(value, bool) or "boolean" in shape.types)
    return value if fits else text


def _read_children(element: Element, children: Sequence[Element], shape: Shape, tag: str) -> Json:
    if "array" in shape.types:
        return [read_value(child, shape.inner(""), tag) for child in children]
    value: dict[str, Json] = {}
    for child in children:
        name = child.tag.key
        if name in value:
            raise UnreadableTag(f"`{name[:64]}` is given twice in `<{element.tag.name}>`; keep one")
        value[name] = read_value(child, shape.inner(name), tag)
    return value


def _resolve_reference(schema: Json, root: Json, depth: int = 0) -> Json:
    reference = schema.get("$ref") if isinstance(schema, Mapping) else None
    if not isinstance(reference, str) or not reference.startswith("#/") or depth > _DEEPEST_SCHEMA:
        return schema
    found = root
    for part in reference[2:].split("/"):
        found = found.get(part, {}) if isinstance(found, Mapping) else {}
    return _resolve_reference(found, root, depth + 1)


def _types(schema: Json, root: Json, depth: int = 0) -> set[str]:
    schema = _resolve_reference(schema, root)
    if not isinstance(schema, Mapping) or depth > _DEEPEST_SCHEMA:
        return set()
    said = schema.get("type")
    found = {said} if isinstance(said, str) else {name for name in get_list(schema, "type") if isinstance(name, str)}
    for key in ("anyOf", "oneOf"):
        found |= {name for branch in get_list(schema, key) for name in _types(branch, root, depth + 1)}
    allowed = get_list(schema, "enum") if "enum" in schema else [schema.get("const")]
    if not found and any(isinstance(value, str) for value in allowed):
        found = {"string"}
    return found


_DEEPEST = 8
"""Tags in the value of a parameter, at most."""
# "<<", "stray words".
_STRAY = compile_late(r"<{1,20}[^<>\n]{0,60}>?|[^<\n]{1,60}")


class UnclosedTag(Exception):
    """The text ended inside a tag; the name is that of the innermost one."""


class StrayContent(Exception):
    """Something else than a tag stands between the tags in the tag of this name."""


class BodyReader:
    """Reads what tags of calls hold. A tag that breaks the form is read to its end all the same, then refused."""

    def __init__(self, window: Window) -> None:
        self._window = window

    def read_call(self, tag: Tag, shapes: Callable[[str], Shape]) -> Waits[Element]:
        """Read the rest of a call, with parameters' shapes by name; raise UnreadableTag or UnclosedTag."""
        if tag.kind == "whole":
            return Element(tag, children=())
        try:
            if (yield from self._window.is_cdata_next()):
                return (yield from self._read_exact(tag))
            first = yield from self._peek_first_tag()
            if first is not None and (first.kind != "close" or first.name == tag.name):
                return (yield from self._read_tags(tag, lambda child: shapes(child.name), 0))
        except StrayContent as stray:
            found = _STRAY.match((yield from self._read_text(tag)))
            raise UnreadableTag(
                f"in `<{stray}>` only tags may stand between tags, and not `{found[0] if found else ''}`: put it into "
                "the tag it belongs to, and content that holds closing tags into <![CDATA[ and ]]>"
            ) from None
        except UnreadableTag:
            yield from self._read_text(tag)
            raise
        return Element(tag, (yield from self._read_text(tag)))

    def _peek_first_tag(self) -> Waits[Tag | None]:
        skip = yield from self._window.peek_past_blanks()
        return (yield from self._window.peek_tag(skip))

    def _read_tags(self, tag: Tag, shape: Callable[[Tag], Shape], depth: int) -> Waits[Element]:
        """Read the tags in a tag, and its closing tag; those at depth 0 are the parameters of a call."""
        if depth > _DEEPEST:
            raise UnreadableTag(f"tags in `<{tag.name}>` nest deeper than {_DEEPEST}; write the value as JSON")
        children: list[Element] = []
        while (child := (yield from self._read_next_tag(tag))) is not None:
            if child.attributes and not depth:
                raise UnreadableTag(f"the tag `<{child.name}>` in `<{tag.name}>` takes no attributes; leave them out")
            children.append((yield from self._read_value(child, tag, shape(child), depth)))
        return Element(tag, children=tuple(children))

    def _read_next_tag(self, parent: Tag) -> Waits[Tag | None]:
        """Read the next opening tag in a tag, or its closing tag and return None."""
        window = self._window
        window.skip((yield from window.peek_past_blanks()))
        tag = yield from window.peek_tag()
        closing = tag is not None and tag.kind == "close"
        if tag is not None and (not closing or tag.name == parent.name):
            window.skip(len(tag.text))
            return None if closing else tag
        if not (yield from window.peek_character()):
            raise UnclosedTag(parent.name)
        raise StrayContent(parent.name)

    def _read_value(self, tag: Tag, parent: Tag, shape: Shape, depth: int) -> Waits[Element]:
        """Read a tag in a tag; where the schema wants a list or an object, there may be tags in it."""
        if tag.kind == "whole":
            return Element(tag)
        if (yield from self._window.is_cdata_next()):
            return (yield from self._read_exact(tag))
        first = None if shape.may_be_text else (yield from self._peek_first_tag())
        if first is not None and first.kind != "close":
            return (yield from self._read_tags(tag, lambda child: shape.inner(child.key), depth + 1))
        return Element(tag, (yield from self._read_text(tag, parent.name if shape.is_literal else "")))

    def _read_exact(self, tag: Tag) -> Waits[Element]:
        text, closed = yield from self._window.read_sections()
        if not closed:
            raise UnclosedTag(tag.name)
        end = yield from self._window.peek_tag()
        if end is None or end.kind != "close" or end.name != tag.name:
            raise UnreadableTag(f"in `<{tag.name}>` text stands beside CDATA; put all of it into CDATA")
        self._window.skip(len(end.text))
        return Element(tag, text, exact=True)

    def _read_text(self, tag: Tag, parent: str = "") -> Waits[str]:
        text, closed = yield from self._window.read_inside(tag.name, parent)
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
