"""An agent loop that checks before it acts: a prelude of gates judges every model response before any tool runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foregate.schemas.version import __version__ as __version__

if TYPE_CHECKING:
    from foregate.agent.models.openai.endpoint import Retries
    from foregate.agent.models.openai.model import OpenAIModel
    from foregate.agent.planning.ask.planner import Planning
    from foregate.agent.planning.format.configuration import Configuration, load_configuration
    from foregate.agent.planning.format.other_values import with_values
    from foregate.agent.planning.run.answering import PlanReport
    from foregate.agent.session.result import RunResult
    from foregate.agent.session.result import RunResult as Outcome
    from foregate.agent.session.session import Session
    from foregate.agent.tools.python.python_tool import tool
    from foregate.agent.tools.tool import BaseToolSource, Tool, ToolSources, WrappedToolSource
    from foregate.agent.workspace.local import LocalWorkspace
    from foregate.agent.workspace.workspace import Workspace
    from foregate.api import Agent, run, run_sync
    from foregate.assembly.home import open_home_log as open_log
    from foregate.judging import answer_need, build_turn, judge, survey
    from foregate.policy.policy import Policy
    from foregate.policy.source.load import default_policy, load_policy
    from foregate.schemas.errors import (
        ForegateError,
        InvalidJson,
        LogError,
        ModelError,
        NotText,
        PolicyError,
        RuntimeLost,
        SessionHeld,
        TamperedLog,
        ToolsRefused,
        UsageError,
        WorkspaceError,
    )
    from foregate.schemas.event import Draft, Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
    from foregate.schemas.event_body import (
        CallAnswered,
        CatalogChanged,
        Checkpoint,
        ContextCompressed,
        EffectUndone,
        EventBody,
        OutcomeResolved,
        OutcomeUnknown,
        PolicyChanged,
        Report,
        SessionEnded,
        SessionStarted,
        TaskEnded,
        TaskPaused,
        TaskStarted,
        ToolFinished,
        ToolStarted,
        UserMessage,
    )
    from foregate.schemas.judgement import (
        Answer,
        CallRuling,
        Decision,
        Grant,
        Judgement,
        Need,
        Number,
        Remedy,
        Ruling,
        Standing,
        Verdict,
    )
    from foregate.schemas.message import Message, ModelRequest
    from foregate.schemas.model_response import Follower, ModelResponse, Usage
    from foregate.schemas.protocols import (
        Blobs,
        FileChange,
        Head,
        Inverse,
        Lease,
        Log,
        Model,
        Person,
        Reconciled,
        Reply,
        RunContext,
        ToolSource,
    )
    from foregate.schemas.strict_json import Json
    from foregate.schemas.task_plan import (
        PlanConfirmed,
        PlanDefect,
        PlannedCall,
        PlanProposed,
        PlanStepChanged,
        PlanTask,
        TaskPlan,
        TaskResult,
    )
    from foregate.schemas.tool_call import (
        Change,
        EvidenceKind,
        EvidenceRecord,
        Origin,
        Permit,
        Survey,
        SurveyedResource,
        ToolCall,
        ToolResult,
        Trust,
    )
    from foregate.schemas.tool_spec import (
        Capabilities,
        Catalogue,
        Effect,
        Resource,
        ResourceKind,
        TargetParameter,
        ToolSpec,
        build_catalogue,
    )
    from foregate.schemas.turn import Turn
    from foregate.telemetry.audit.decisions import DecisionPoint, read_decisions
    from foregate.telemetry.audit.verify import Defect, Verification, verify_session
    from foregate.telemetry.export.restore import RestoredSession
    from foregate.telemetry.export.restore import restore_sessions as restore_trajectory
    from foregate.telemetry.export.trajectory import Action, Trajectory, TrajectoryStep
    from foregate.telemetry.log.file_blobs import FileBlobs
    from foregate.telemetry.log.sqlite_log import SqliteLog

__all__ = [
    "Action",
    "Agent",
    "Answer",
    "BaseToolSource",
    "Blobs",
    "CallAnswered",
    "CallRuling",
    "Capabilities",
    "CatalogChanged",
    "Catalogue",
    "Change",
    "Checkpoint",
    "Configuration",
    "ContextCompressed",
    "Decision",
    "DecisionPoint",
    "Defect",
    "Draft",
    "Effect",
    "EffectUndone",
    "Event",
    "EventBody",
    "EvidenceKind",
    "EvidenceRecord",
    "FileBlobs",
    "FileChange",
    "Follower",
    "ForegateError",
    "Grant",
    "Head",
    "InvalidJson",
    "Inverse",
    "Json",
    "Judgement",
    "Lease",
    "LocalWorkspace",
    "Log",
    "LogError",
    "Message",
    "Model",
    "ModelError",
    "ModelRequest",
    "ModelResponded",
    "ModelResponse",
    "Need",
    "NeedAnswered",
    "NeedRaised",
    "NotText",
    "Number",
    "OpenAIModel",
    "Origin",
    "Outcome",
    "OutcomeResolved",
    "OutcomeUnknown",
    "Permit",
    "Person",
    "PlanConfirmed",
    "PlanDefect",
    "PlanProposed",
    "PlanReport",
    "PlanStepChanged",
    "PlanTask",
    "PlannedCall",
    "Planning",
    "Policy",
    "PolicyChanged",
    "PolicyError",
    "Reconciled",
    "Remedy",
    "Reply",
    "Report",
    "Resource",
    "ResourceKind",
    "RestoredSession",
    "Retries",
    "Ruling",
    "RunContext",
    "RunResult",
    "RuntimeLost",
    "Session",
    "SessionEnded",
    "SessionHeld",
    "SessionStarted",
    "SqliteLog",
    "Standing",
    "Survey",
    "SurveyedResource",
    "TamperedLog",
    "TargetParameter",
    "TaskEnded",
    "TaskPaused",
    "TaskPlan",
    "TaskResult",
    "TaskStarted",
    "Tool",
    "ToolCall",
    "ToolFinished",
    "ToolResult",
    "ToolSource",
    "ToolSources",
    "ToolSpec",
    "ToolStarted",
    "ToolsRefused",
    "Trajectory",
    "TrajectoryStep",
    "Trust",
    "Turn",
    "TurnJudged",
    "Usage",
    "UsageError",
    "UserMessage",
    "Verdict",
    "Verification",
    "Workspace",
    "WorkspaceError",
    "WrappedToolSource",
    "__version__",
    "answer_need",
    "build_catalogue",
    "build_turn",
    "default_policy",
    "judge",
    "load_configuration",
    "load_policy",
    "open_log",
    "read_decisions",
    "restore_trajectory",
    "run",
    "run_sync",
    "survey",
    "tool",
    "verify_session",
    "with_values",
]

_HOMES = {
    "foregate.agent.models.openai.endpoint": "Retries",
    "foregate.agent.models.openai.model": "OpenAIModel",
    "foregate.agent.planning.ask.planner": "Planning",
    "foregate.agent.planning.format.configuration": "Configuration load_configuration",
    "foregate.agent.planning.format.other_values": "with_values",
    "foregate.agent.planning.run.answering": "PlanReport",
    "foregate.agent.session.result": "RunResult RunResult:Outcome",
    "foregate.agent.session.session": "Session",
    "foregate.agent.tools.python.python_tool": "tool",
    "foregate.agent.tools.tool": "BaseToolSource Tool ToolSources WrappedToolSource",
    "foregate.agent.workspace.local": "LocalWorkspace",
    "foregate.agent.workspace.workspace": "Workspace",
    "foregate.api": "Agent run run_sync",
    "foregate.assembly.home": "open_home_log:open_log",
    "foregate.judging": "answer_need build_turn judge survey",
    "foregate.policy.policy": "Policy",
    "foregate.policy.source.load": "default_policy load_policy",
    "foregate.schemas.errors": (
        "ForegateError InvalidJson LogError ModelError NotText PolicyError RuntimeLost SessionHeld TamperedLog "
        "ToolsRefused UsageError WorkspaceError"
    ),
    "foregate.schemas.event": "Draft Event ModelResponded NeedAnswered NeedRaised TurnJudged",
    "foregate.schemas.event_body": (
        "CallAnswered CatalogChanged Checkpoint ContextCompressed EffectUndone EventBody OutcomeResolved "
        "OutcomeUnknown PolicyChanged Report SessionEnded SessionStarted TaskEnded TaskPaused TaskStarted "
        "ToolFinished ToolStarted UserMessage"
    ),
    "foregate.schemas.judgement": (
        "Answer CallRuling Decision Grant Judgement Need Number Remedy Ruling Standing Verdict"
    ),
    "foregate.schemas.message": "Message ModelRequest",
    "foregate.schemas.model_response": "Follower ModelResponse Usage",
    "foregate.schemas.protocols": (
        "Blobs FileChange Head Inverse Lease Log Model Person Reconciled Reply RunContext ToolSource"
    ),
    "foregate.schemas.strict_json": "Json",
    "foregate.schemas.task_plan": (
        "PlanConfirmed PlanDefect PlannedCall PlanProposed PlanStepChanged PlanTask TaskPlan TaskResult"
    ),
    "foregate.schemas.tool_call": (
        "Change EvidenceKind EvidenceRecord Origin Permit Survey SurveyedResource ToolCall ToolResult Trust"
    ),
    "foregate.schemas.tool_spec": (
        "build_catalogue Capabilities Catalogue Effect Resource ResourceKind TargetParameter ToolSpec"
    ),
    "foregate.schemas.turn": "Turn",
    "foregate.telemetry.audit.decisions": "DecisionPoint read_decisions",
    "foregate.telemetry.audit.verify": "Defect Verification verify_session",
    "foregate.telemetry.export.restore": "restore_sessions:restore_trajectory RestoredSession",
    "foregate.telemetry.export.trajectory": "Action Trajectory TrajectoryStep",
    "foregate.telemetry.log.file_blobs": "FileBlobs",
    "foregate.telemetry.log.sqlite_log": "SqliteLog",
}
"""Where the public names live; `a:b` is the name `a` there and `b` here."""

_PLACES = {
    name.rpartition(":")[2]: (home, name.partition(":")[0]) for home, names in _HOMES.items() for name in names.split()
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for, so that `import foregate` stays cheap."""
    from importlib import import_module

    try:
        home, own = _PLACES[name]
    except KeyError:
        raise AttributeError(f"module `foregate` has no attribute `{name}`") from None
    value = getattr(import_module(home), own)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
