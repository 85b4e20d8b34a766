"""A world whose process dies in a call, so that nobody but its tools knows what came of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from foregate.agent.tools.tool import Tool
from foregate.schemas.event_body import KnownOutcome
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall, ToolResult
from tests.agent.world import World


class Died(BaseException):
    """The process ended."""


@dataclasses.dataclass(repr=False)
class Deadly(World):
    """A world whose process dies in the next call that changes something, before or after its effect.

    `truth` is what really came of each call it died in, by digest.
    """

    dies: Literal["", "before", "after"] = ""
    truth: dict[str, KnownOutcome] = dataclasses.field(default_factory=dict)

    def spied(self, tool: Tool) -> Tool:
        inner = super().spied(tool)

        async def run(arguments: Mapping[str, Json]) -> ToolResult:
            when, self.dies = (self.dies, "") if tool.spec.effect.changes else ("", self.dies)
            digest = ToolCall.of(tool.spec.name, arguments).digest
            if when == "before":
                self.truth[digest] = "not_done"
                raise Died
            result = await inner.run(arguments)
            if when == "after":
                self.truth[digest] = "done" if result.ok else "not_done"
                raise Died
            return result

        return dataclasses.replace(inner, run=run)
