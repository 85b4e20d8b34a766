"""In what order the calls of a response are meant to run: blocks that run at once, and blocks that run in turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json

BlockKind = Literal["parallel", "sequential"]
_KINDS = ("parallel", "sequential")
_DEEPEST = 16


class Block(Struct, frozen=True):
    """A block of a response. An item is the place of a call, counted from 0 as the calls were written, or a block."""

    kind: BlockKind
    items: tuple[int | Block, ...]

    def find_places(self) -> Iterator[int]:
        """Yield the places of the calls in the block and in the blocks inside it, in written order."""
        for item in self.items:
            if isinstance(item, int):
                yield item
            else:
                yield from item.find_places()

    def fit_to(self, count: int) -> Block:
        """Return the block for that many calls, as a log can hold it.

        A place there is no call in, or that was named before, is left out; blocks nested deeper than a log holds run in
        turn.
        """
        return self._build_fitting(set(range(count)), 0)

    def _build_fitting(self, left: set[int], depth: int) -> Block:
        if depth == _DEEPEST:
            return Block("sequential", tuple(_take_places(self.find_places(), left)))
        items: list[int | Block] = []
        for item in self.items:
            items += _take_places([item], left) if isinstance(item, int) else [item._build_fitting(left, depth + 1)]
        return Block(self.kind, tuple(items))

    def restrict_to(self, places: Sequence[int]) -> Block | None:
        """Return what is left of the block when only the calls in `places` are there, numbered as they stand in it."""
        return self._renumber({place: number for number, place in enumerate(places)})

    def _renumber(self, numbers: Mapping[int, int]) -> Block | None:
        items = (numbers.get(item) if isinstance(item, int) else item._renumber(numbers) for item in self.items)
        kept = tuple(item for item in items if item is not None)
        return Block(self.kind, kept) if kept else None

    def find_step(self, place: int, number: int) -> int | Block | None:
        """Return the item that is step `number`, from 1, for the call in `place`; None where there is no such.

        It is that item of the innermost sequential block around the call that has so many before the call.
        """
        for at, item in enumerate(self.items):
            if item == place or (isinstance(item, Block) and place in item.find_places()):
                inner = item.find_step(place, number) if isinstance(item, Block) else None
                here = self.kind == "sequential" and 0 < number <= at
                return inner if inner is not None or not here else self.items[number - 1]
        return None

    def to_json(self) -> Json:
        """Return the block as a list: its kind, then its items."""
        return [self.kind, *(item if isinstance(item, int) else item.to_json() for item in self.items)]

    @classmethod
    def from_json(cls, data: Json, depth: int = 0) -> Block:
        """Return the block a list describes; raise InvalidJson for anything else."""
        if not isinstance(data, list) or not data or data[0] not in _KINDS or depth > _DEEPEST:
            raise InvalidJson("not a block of calls: a list of `parallel` or `sequential` and its items")
        items: list[int | Block] = []
        for item in data[1:]:
            if isinstance(item, list):
                items.append(cls.from_json(item, depth + 1))
            elif isinstance(item, int) and not isinstance(item, bool) and item >= 0:
                items.append(item)
            else:
                raise InvalidJson("not a block of calls: an item is the place of a call, or a block")
        return cls(data[0], tuple(items))


def _take_places(places: Iterable[int], left: set[int]) -> list[int]:
    """Take places out of those left; return the ones that were among them, in order."""
    found = [place for place in dict.fromkeys(places) if place in left]
    left.difference_update(found)
    return found
