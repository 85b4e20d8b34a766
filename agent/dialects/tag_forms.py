"""What a tag calls: a tool, how its parameters are named in the tag, and the calls its arguments make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from foregate.agent.dialects.dialect import build_order
from foregate.agent.dialects.tag_parameters import Element, Shape, UnreadableTag, build_shape, read_list, read_value
from foregate.evidence.state.dataflow import find_steps
from foregate.schemas.model_response import Block, BlockKind
from foregate.schemas.strict_json import Json, as_texts, get_list, get_object
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import PARAMETERS, TOOLS, ToolSpec, spell_name

Arguments = dict[str, Json]
Finish = Callable[[Arguments], Sequence[tuple[str, Arguments]]]
"""From the arguments of a tag to (tool, arguments) of the calls it stands for."""


class TagForm(Struct, frozen=True):
    """A tag that calls a tool. `spec` None is a tool there is not: its call is made all the same, to be refused.

    `names` leads from parameters of the tag to the tool's, `aside` holds the shapes of those the tool has not, which
    `finish` makes something of. A `foreign` one is a tool of other agents, read in the shapes of ours that it is near.
    """

    tag: str
    tool: str
    spec: ToolSpec | None = None
    names: Mapping[str, str] = {}
    aside: Mapping[str, Shape] = {}
    finish: Finish | None = None
    foreign: bool = False

    def shape(self, name: str) -> Shape:
        """Return the shape of a parameter by its name in the tag."""
        if name in self.aside:
            return self.aside[name]
        ours = self.names.get(name, name)
        shape = build_shape(self.spec, ours.removesuffix("[]"))
        return shape.inner("") if ours.endswith("[]") else shape

    def build_calls(self, element: Element) -> list[ToolCall]:
        """Return the calls an element makes; raise UnreadableTag with a sentence for the model."""
        arguments: Arguments = {}
        if element.children is None and not element.exact and element.text.lstrip().startswith("{"):
            if element.tag.attributes:
                raise UnreadableTag(f"`<{self.tag}>` holds JSON and attributes; put all arguments into the JSON")
            call = ToolCall.parse(self.tool, element.text.strip())
            if call.arguments is None or not (self.finish or self.names.keys() & call.arguments.keys()):
                return [call]
            for name, value in call.arguments.items():
                self._put(arguments, name, value)
        else:
            for name, text in element.tag.attributes:
                self._put(arguments, name, Element(element.tag, text, exact=True))
            for child in element.children or ():
                self._put(arguments, child.tag.name, child)
            if element.children is None and (element.exact or element.text.strip()):
                self._put(arguments, self._find_bare_parameter(arguments), element)
        wanted = self.finish(arguments) if self.finish else [(self.tool, arguments)]
        return [ToolCall.of(tool, found) for tool, found in wanted]

    def parameters(self) -> list[str]:
        """Return the names of the parameters in the tag, the tool's own where the tag has no other name for them."""
        own = get_object(self.spec.parameters, "properties") if self.spec else {}
        return [*self.aside, *(self.spell_parameter(name) for name in own)]

    def list_required(self) -> Sequence[str]:
        """Return the tool's own names of the parameters that must be given."""
        return as_texts(get_list(self.spec.parameters, "required"), "required") if self.spec else ()

    def spell_parameter(self, name: str) -> str:
        """Return the tag's name for a parameter of the tool."""
        return next((theirs for theirs, ours in self.names.items() if ours.removesuffix("[]") == name), name)

    def _find_bare_parameter(self, given: Arguments) -> str:
        """Return the parameter that text without a tag is meant for, beside those given as attributes."""
        if self.spec is None:
            return "text"
        required = [name for name in self.list_required() if name not in given]
        texts = [name for name in required if "string" in self.shape(name).types]
        if len(texts) == 1 or len(required) == 1:
            return self.spell_parameter((texts or required)[0])
        if required:
            needed = " and ".join(f"`{self.spell_parameter(name)}`" for name in required)
            raise UnreadableTag(f"`<{self.tag}>` needs {needed}; give each in a tag of its own inside it")
        names = ", ".join(f"`{name}`" for name in self.parameters()[:8])
        raise UnreadableTag(f"`<{self.tag}>` takes no bare text" + (f"; its parameters are {names}" if names else ""))

    def _put(self, arguments: Arguments, name: str, given: Element | Json) -> None:
        """Put what a parameter is given among the arguments; of JSON only words for a list of the tag's are read."""
        ours = name if name in self.aside else self.names.get(name, name)
        key, shape = ours.removesuffix("[]"), self.shape(name)
        if key in arguments:
            raise UnreadableTag(f"the parameter `{name[:64]}` of `<{self.tag}>` is given twice; keep one")
        own = name in self.aside or name in self.names
        if isinstance(given, Element):
            given = read_value(given, shape, self.tag)
        elif own and isinstance(given, str) and "array" in shape.types and not shape.may_be_text:
            given = read_list(given, shape, self.tag)
        arguments[key] = [given] if ours.endswith("[]") else given


class CallCollector:
    """Calls in written order, and the blocks they stand in. Those of one tag are one item of their block."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.deferred: list[int] = []
        self._items: list[int | Block] = []
        self._open: list[tuple[BlockKind, list[int | Block]]] = []

    def begin(self, kind: BlockKind) -> None:
        """A block begins."""
        self._open.append((kind, self._items))
        self._items = []

    def end(self) -> None:
        """A block ends; one without calls is none."""
        inside = self._items
        kind, self._items = self._open.pop()
        if inside:
            self._items.append(Block(kind, tuple(inside)))

    def add(self, calls: Sequence[ToolCall]) -> None:
        """Take in the calls of one tag. Within a `sequential` block their arguments may name earlier results.

        Of several calls only the first may: for a later one the steps would be counted from the first.
        """
        steps = any(kind == "sequential" for kind, _ in self._open)
        if steps and any(map(_has_steps, calls[1:])):
            each = " and ".join(f"`<{call.name}>`" for call in calls)
            why = f"this tag makes several calls, and a later one names the result of a step; write {each} instead"
            calls = [ToolCall.from_defect(calls[-1].name, calls[-1].raw, why)]
        places = range(len(self.calls), len(self.calls) + len(calls))
        self.calls += calls
        if steps:
            self.deferred += [place for place in places if _has_steps(self.calls[place])]
        self._items += [Block("sequential", tuple(places))] if len(calls) > 1 and self._open else places

    def order(self) -> Block | None:
        """Return the order the blocks say, None where there was none; blocks still open end here."""
        while self._open:
            self.end()
        return build_order(self._items)


def _has_steps(call: ToolCall) -> bool:
    return call.arguments is not None and bool(find_steps(dict(call.arguments)))


def build_foreign_form(tag: str, specs: Mapping[str, ToolSpec]) -> TagForm | None:
    """Return the form of a tag in which other agents call a tool, None where none of our own is near.

    The call keeps the tag's name: what it is taken for is decided with its arguments.
    """
    foreign = TOOLS.get(spell_name(tag))
    spec = specs.get(foreign.tool) if foreign is not None else None
    if foreign is None or spec is None or spec.provenance != "builtin":
        return None
    theirs = {**PARAMETERS.get(foreign.tool, {}), **foreign.parameters}
    aside = {name: build_shape(spec, ours) for name, ours in theirs.items()}
    return TagForm(tag, tag, spec, aside=aside, foreign=True)
