"""What a tag calls: a tool, how its parameters are named in the tag, and the calls its arguments make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from foregate.agent.dialects.tags.command_words import UnreadableTag
from foregate.agent.dialects.tags.parameters import Element, Shape, build_shape, read_list, read_value
from foregate.evidence.state.dataflow import find_steps
from foregate.schemas.model_response import Block, BlockKind
from foregate.schemas.strict_json import Json, as_texts, get_list, get_object
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec

Arguments = dict[str, Json]
Finish = Callable[[Arguments], Sequence[tuple[str, Arguments]]]
"""From the arguments of a tag to (tool, arguments) of the calls it stands for."""


class Form(Struct, frozen=True):
    """A tag that calls a tool. `spec` None is a tool there is not: its call is made all the same, to be refused.

    `names` leads from parameters of the tag to the tool's, `aside` holds the shapes of those the tool has not, which
    `finish` makes something of.
    """

    tag: str
    tool: str
    spec: ToolSpec | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    aside: Mapping[str, Shape] = field(default_factory=dict)
    finish: Finish | None = None

    def shape(self, name: str) -> Shape:
        """Return the shape of a parameter by its name in the tag."""
        if name in self.aside:
            return self.aside[name]
        ours = self.names.get(name, name)
        shape = build_shape(self.spec, ours.removesuffix("[]"))
        return shape.inner("") if ours.endswith("[]") else shape

    def build_calls(self, element: Element) -> list[ToolCall]:
        """Return the calls an element makes; raise UnreadableTag with a sentence for the model."""
        if element.children is None and not element.exact and element.text.lstrip().startswith("{"):
            return self._parse_json_calls(element)
        arguments: Arguments = {}
        for name, value in element.tag.attributes:
            self._put(arguments, name, Element(element.tag, value, exact=True))
        if element.children is not None:
            for child in element.children:
                self._put(arguments, child.tag.name, child)
        elif element.exact or element.text.strip():
            self._put(arguments, self._find_bare_parameter(arguments), element)
        return self._finish_calls(arguments)

    def parameters(self) -> list[str]:
        """Return the names of the parameters in the tag, the tool's own where the tag has no other name for them."""
        own = get_object(self.spec.parameters, "properties") if self.spec else {}
        return [*self.aside, *(self.spell_parameter(name) for name in own)]

    def list_required(self) -> list[str]:
        """Return the names of the parameters that must be given, as in the tag."""
        return [self.spell_parameter(name) for name in self._list_required()]

    def spell_parameter(self, name: str) -> str:
        """Return the tag's name for a parameter of the tool."""
        return next((theirs for theirs, ours in self.names.items() if ours.removesuffix("[]") == name), name)

    def _list_required(self) -> list[str]:
        return list(as_texts(get_list(self.spec.parameters, "required"), "required")) if self.spec else []

    def _find_bare_parameter(self, given: Arguments) -> str:
        """Return the parameter that text without a tag is meant for, beside those given as attributes."""
        if self.spec is None:
            return "text"
        required = [name for name in self._list_required() if name not in given]
        texts = [name for name in required if "string" in self.shape(name).types]
        if len(texts) == 1 or len(required) == 1:
            return self.spell_parameter((texts or required)[0])
        if required:
            needed = " and ".join(f"`{self.spell_parameter(name)}`" for name in required)
            raise UnreadableTag(f"`<{self.tag}>` needs {needed}; give each in a tag of its own inside it")
        names = ", ".join(f"`{name}`" for name in self.parameters()[:8])
        raise UnreadableTag(f"`<{self.tag}>` takes no bare text" + (f"; its parameters are {names}" if names else ""))

    def _put(self, arguments: Arguments, name: str, element: Element) -> None:
        ours = name if name in self.aside else self.names.get(name, name)
        key = ours.removesuffix("[]")
        if key in arguments:
            raise UnreadableTag(f"the parameter `{name[:64]}` of `<{self.tag}>` is given twice; keep one")
        value = read_value(element, self.shape(name), self.tag)
        arguments[key] = [value] if ours.endswith("[]") else value

    def _parse_json_calls(self, element: Element) -> list[ToolCall]:
        """Return the calls of arguments written as one JSON object."""
        if element.tag.attributes:
            raise UnreadableTag(f"`<{self.tag}>` holds JSON and attributes; put all arguments into the JSON")
        call = ToolCall.parse(self.tool, element.text.strip())
        if call.arguments is None or not (self.finish or self.names.keys() & call.arguments.keys()):
            return [call]
        arguments: Arguments = {}
        for name, value in call.arguments.items():
            ours = self.names.get(name, name)
            key = ours.removesuffix("[]")
            if key in arguments:
                raise UnreadableTag(f"the parameter `{name[:64]}` of `<{self.tag}>` is given twice; keep one")
            value = self._read_list(name, value)
            arguments[key] = [value] if ours.endswith("[]") else value
        return self._finish_calls(arguments)

    def _read_list(self, name: str, value: Json) -> Json:
        """Return a list that a tag's own parameter is given as words, as `command` is; other values are as they are."""
        shape = self.shape(name)
        own = name in self.aside or name in self.names
        if own and isinstance(value, str) and "array" in shape.types and not shape.may_be_text:
            return read_list(value, shape, self.tag)
        return value

    def _finish_calls(self, arguments: Arguments) -> list[ToolCall]:
        wanted = self.finish(arguments) if self.finish else [(self.tool, arguments)]
        return [ToolCall.of(tool, found) for tool, found in wanted]


class OpenBlock(Struct):
    """A block that is being read."""

    kind: BlockKind
    items: list[int | Block] = field(default_factory=list)


class CallCollector:
    """Calls in written order. Those of one tag are one item of the block they stand in."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.deferred: list[int] = []
        self._open: list[OpenBlock] = [OpenBlock("sequential")]
        self._blocks = False

    @property
    def depth(self) -> int:
        """How many blocks are open."""
        return len(self._open) - 1

    def begin(self, kind: BlockKind) -> None:
        """A block begins."""
        self._open.append(OpenBlock(kind))

    def end(self) -> None:
        """A block ends; one without calls is none."""
        block = self._open.pop()
        if block.items:
            self._blocks = True
            self._open[-1].items.append(Block(block.kind, tuple(block.items)))

    def add(self, calls: Sequence[ToolCall]) -> None:
        """Take in the calls of one tag. Within a `sequential` block their arguments may name earlier results.

        Of several calls only the first may: for a later one the steps would be counted from the first.
        """
        steps = any(block.kind == "sequential" for block in self._open[1:])
        if steps and any(map(_has_steps, calls[1:])):
            each = " and ".join(f"`<{call.name}>`" for call in calls)
            why = f"this tag makes several calls, and a later one names the result of a step; write {each} instead"
            calls = [ToolCall.from_defect(calls[-1].name, calls[-1].raw, why)]
        first = len(self.calls)
        places = range(first, first + len(calls))
        self.calls += calls
        if steps:
            self.deferred += [place for place in places if _has_steps(self.calls[place])]
        if len(calls) > 1 and self.depth:
            self._open[-1].items.append(Block("sequential", tuple(places)))
        else:
            self._open[-1].items += places

    def order(self) -> Block | None:
        """Return the order the blocks say, None where there was none; blocks still open end here."""
        while self.depth:
            self.end()
        items = self._open[0].items
        if not self._blocks:
            return None
        only = items[0]
        return only if len(items) == 1 and isinstance(only, Block) else Block("sequential", tuple(items))


def _has_steps(call: ToolCall) -> bool:
    return call.arguments is not None and bool(find_steps(dict(call.arguments)))
