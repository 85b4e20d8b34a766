"""Running a tool without a session, as the executor would run a call that was judged."""

from __future__ import annotations

from collections.abc import Iterable

from foregate.agent.survey.surveyor import Surveyor
from foregate.agent.tools.tool import Tool, Toolbox
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.session import SessionState
from foregate.policy.source.load import default_policy
from foregate.schemas.protocols import RunContext, ToolSource
from foregate.schemas.tool_call import Survey, ToolCall, ToolResult
from foregate.schemas.tool_spec import build_catalogue


class Bench(Toolbox):
    """Tools of a workspace, with the eyes a session has for it."""

    def __init__(self, workspace: Workspace, tools: Iterable[Tool]) -> None:
        super().__init__(tools)
        self._surveyor = Surveyor(workspace, self, default_policy(), build_catalogue(list(self.specs())))

    def look(self, call: ToolCall) -> Survey:
        """Return what a call would be judged on now."""
        return self._surveyor.survey_call(call, SessionState())


async def run_alone(tools: ToolSource, call: ToolCall, survey: Survey | None = None) -> ToolResult:
    """Run a call on `survey`, else on what is found of it now where the tools are a Bench, and on nothing elsewhere."""
    if survey is None:
        survey = tools.look(call) if isinstance(tools, Bench) else Survey(call.id)
    return await tools.run(call, RunContext(survey))
