"""An agent loop that checks before it acts: a prelude of gates judges every model response before any tool runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foregate.schemas.version import __version__ as __version__

if TYPE_CHECKING:
    from foregate.agent.models.openai.model import OpenAIModel
    from foregate.agent.models.openai.retries import Retries
    from foregate.agent.planning.answering import PlanReport
    from foregate.agent.planning.configuration import Configuration, load_configuration
    from foregate.agent.planning.other_values import with_values
    from foregate.agent.planning.planner import Planning
    from foregate.agent.session.interaction import AbsentPerson
    from foregate.agent.session.result import RunResult
    from foregate.agent.session.result import RunResult as Outcome
    from foregate.agent.session.session import Session
    from foregate.agent.tools.python_tool import tool
    from foregate.agent.tools.tool import BaseToolSource, Tool, ToolSources, WrappedToolSource
    from foregate.agent.workspace.confined_program import run_confined
    from foregate.agent.workspace.file_traits import FileTraits
    from foregate.agent.workspace.local import LocalWorkspace
    from foregate.agent.workspace.workspace import Workspace
    from foregate.api import Agent, run, run_sync
    from foregate.assembly.approvals import Approvals
    from foregate.assembly.home import open_home_log as open_log
    from foregate.judging import answer_need, build_turn, judge, survey
    from foregate.policy.policy import Policy
    from foregate.policy.source.load import default_policy, load_policy
    from foregate.schemas.errors import (
        ContextTooLong,
        ForegateError,
        InvalidJson,
        LogError,
        ModelError,
        NotText,
        PolicyError,
        RuntimeLost,
        SessionHeld,
        SyncError,
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
    from foregate.schemas.identity import Identity
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
        QuestionStore,
        Reconciled,
        Reply,
        RunContext,
        ToolSource,
    )
    from foregate.schemas.question import Question
    from foregate.schemas.review import ChangeProposed, DecisionLabelled, LabelWithdrawn, QueueDrawn, SessionSignedOff
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
    from foregate.telemetry.export.restore import RestoredSession
    from foregate.telemetry.export.restore import restore_sessions as restore_trajectory
    from foregate.telemetry.export.trajectory import Action, Trajectory, TrajectoryStep
    from foregate.telemetry.log.sqlite_log import SqliteLog
    from foregate.telemetry.log.temporary_file import FileBlobs
    from foregate.telemetry.queries.decisions import DecisionPoint, read_decisions
    from foregate.telemetry.queries.verify import Defect, Verification, verify_session

__all__ = ["__version__"]
# Running tasks
__all__ += ["Agent", "Outcome", "Report", "RunResult", "Session", "run", "run_sync"]
# Tools and what they touch
__all__ += ["BaseToolSource", "Capabilities", "Change", "Effect", "EvidenceKind", "EvidenceRecord", "FileChange"]
__all__ += ["FileTraits", "Inverse", "LocalWorkspace", "Origin", "Reconciled", "Resource", "ResourceKind"]
__all__ += ["RunContext", "TargetParameter", "Tool", "ToolCall", "ToolResult", "ToolSource", "ToolSources"]
__all__ += ["ToolSpec", "Trust", "Workspace", "WrappedToolSource", "run_confined", "tool"]
# People
__all__ += ["AbsentPerson", "Answer", "Approvals", "Identity", "Need", "Person", "Question", "Reply"]
# Models
__all__ += ["Follower", "Json", "Message", "Model", "ModelRequest", "ModelResponse", "OpenAIModel", "Retries", "Usage"]
# Policies
__all__ += ["Policy", "default_policy", "load_policy"]
# Judging, and what it decides
__all__ += ["Catalogue", "Survey", "SurveyedResource", "Turn", "answer_need", "build_catalogue", "build_turn", "judge"]
__all__ += ["survey"]
__all__ += ["CallRuling", "Decision", "DecisionPoint", "Grant", "Judgement", "Number", "Permit", "Remedy", "Ruling"]
__all__ += ["Standing", "Verdict", "read_decisions"]
# Logs
__all__ += ["Blobs", "Defect", "Draft", "Event", "EventBody", "FileBlobs", "Head", "Lease", "Log", "SqliteLog"]
__all__ += ["QuestionStore"]
__all__ += ["Verification", "open_log", "verify_session"]
# Kinds of events
__all__ += ["CallAnswered", "CatalogChanged", "Checkpoint", "ContextCompressed", "EffectUndone", "ModelResponded"]
__all__ += ["NeedAnswered", "NeedRaised", "OutcomeResolved", "OutcomeUnknown", "PlanConfirmed", "PlanProposed"]
__all__ += ["PlanStepChanged", "PolicyChanged", "SessionEnded", "SessionStarted", "TaskEnded", "TaskPaused"]
__all__ += ["TaskStarted", "ToolFinished", "ToolStarted", "TurnJudged", "UserMessage"]
__all__ += ["ChangeProposed", "DecisionLabelled", "LabelWithdrawn", "QueueDrawn", "SessionSignedOff"]
# Plans
__all__ += ["Configuration", "PlanDefect", "PlanReport", "PlanTask", "PlannedCall", "Planning", "TaskPlan"]
__all__ += ["TaskResult", "load_configuration", "with_values"]
# Exports
__all__ += ["Action", "RestoredSession", "Trajectory", "TrajectoryStep", "restore_trajectory"]
# Errors
__all__ += [
    "ContextTooLong",
    "ForegateError",
    "InvalidJson",
    "LogError",
    "ModelError",
    "NotText",
    "PolicyError",
    "RuntimeLost",
]
__all__ += ["SessionHeld", "SyncError", "TamperedLog", "ToolsRefused", "UsageError", "WorkspaceError"]

_HOMES = {
    "foregate.agent.models.openai.retries": "Retries",
    "foregate.agent.models.openai.model": "OpenAIModel",
    "foregate.agent.planning.planner": "Planning",
    "foregate.agent.planning.configuration": "Configuration load_configuration",
    "foregate.agent.planning.other_values": "with_values",
    "foregate.agent.planning.answering": "PlanReport",
    "foregate.agent.session.interaction": "AbsentPerson",
    "foregate.agent.session.result": "RunResult RunResult:Outcome",
    "foregate.agent.session.session": "Session",
    "foregate.agent.tools.python_tool": "tool",
    "foregate.agent.tools.tool": "BaseToolSource Tool ToolSources WrappedToolSource",
    "foregate.agent.workspace.confined_program": "run_confined",
    "foregate.agent.workspace.file_traits": "FileTraits",
    "foregate.agent.workspace.local": "LocalWorkspace",
    "foregate.agent.workspace.workspace": "Workspace",
    "foregate.api": "Agent run run_sync",
    "foregate.assembly.approvals": "Approvals",
    "foregate.assembly.home": "open_home_log:open_log",
    "foregate.judging": "answer_need build_turn judge survey",
    "foregate.policy.policy": "Policy",
    "foregate.policy.source.load": "default_policy load_policy",
    "foregate.schemas.errors": (
        "ContextTooLong ForegateError InvalidJson LogError ModelError NotText PolicyError RuntimeLost SessionHeld "
        "SyncError TamperedLog ToolsRefused UsageError WorkspaceError"
    ),
    "foregate.schemas.event": "Draft Event ModelResponded NeedAnswered NeedRaised TurnJudged",
    "foregate.schemas.event_body": (
        "CallAnswered CatalogChanged Checkpoint ContextCompressed EffectUndone EventBody OutcomeResolved "
        "OutcomeUnknown PolicyChanged Report SessionEnded SessionStarted TaskEnded TaskPaused TaskStarted "
        "ToolFinished ToolStarted UserMessage"
    ),
    "foregate.schemas.identity": "Identity",
    "foregate.schemas.judgement": (
        "Answer CallRuling Decision Grant Judgement Need Number Remedy Ruling Standing Verdict"
    ),
    "foregate.schemas.message": "Message ModelRequest",
    "foregate.schemas.model_response": "Follower ModelResponse Usage",
    "foregate.schemas.protocols": (
        "Blobs FileChange Head Inverse Lease Log Model Person QuestionStore Reconciled Reply RunContext ToolSource"
    ),
    "foregate.schemas.question": "Question",
    "foregate.schemas.review": "ChangeProposed DecisionLabelled LabelWithdrawn QueueDrawn SessionSignedOff",
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
    "foregate.telemetry.export.restore": "restore_sessions:restore_trajectory RestoredSession",
    "foregate.telemetry.export.trajectory": "Action Trajectory TrajectoryStep",
    "foregate.telemetry.log.temporary_file": "FileBlobs",
    "foregate.telemetry.log.sqlite_log": "SqliteLog",
    "foregate.telemetry.queries.decisions": "DecisionPoint read_decisions",
    "foregate.telemetry.queries.verify": "Defect Verification verify_session",
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
