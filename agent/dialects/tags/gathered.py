"""The calls of a response as they are gathered, and the blocks they stand in."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from foregate.evidence.state.dataflow import find_steps
from foregate.schemas.model_response import Block, BlockKind
from foregate.schemas.tool_call import ToolCall


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
