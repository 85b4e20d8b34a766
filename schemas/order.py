"""In what order the calls of a response are meant to run: blocks that run at once, and blocks that run in turn."""

from __future__ import annotations

from collections.abc import Iterator
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

    def places(self) -> Iterator[int]:
        """Yield the places of the calls in the block and in the blocks inside it, in written order."""
        for item in self.items:
            if isinstance(item, int):
                yield item
            else:
                yield from item.places()

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
