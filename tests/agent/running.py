"""Running a tool by itself, as the executor would run a call that was judged."""

from __future__ import annotations

from foregate.schemas.survey import Survey
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_result import ToolResult
from foregate.schemas.tool_source import RunContext, ToolSource


async def run_alone(tools: ToolSource, call: ToolCall) -> ToolResult:
    """Run a call that nothing was surveyed for."""
    return await tools.run(call, RunContext(Survey(call.id)))
