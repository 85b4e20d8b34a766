"""Write docs/reference/python.md: every public name with its signature and docstring. Each name must have a group."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import get_args

import foregate
import foregate.testing

PAGE = Path(__file__).with_name("reference") / "python.md"
HEAD = """\
# The Python library

Generated from signatures and docstrings by `docs/make_python.py`.

Everything public is in `foregate` and `foregate.testing`. Other modules may change without notice. All of it is typed,
and `import foregate` loads a name only when you use it.
"""
GROUPS = {
    "Agents and tasks": "Agent run run_sync Session RunResult Outcome Report",
    "Tools": (
        "tool Tool ToolSource ToolSpec TargetParameter Capabilities Effect Resource ResourceKind ToolCall "
        "ToolResult Change EvidenceRecord EvidenceKind Origin Trust BaseToolSource ToolSources WrappedToolSource "
        "RunContext FileChange Inverse Reconciled Workspace LocalWorkspace FileTraits run_confined"
    ),
    "People": "Person AbsentPerson Need Reply Answer Approvals Question Identity",
    "Models": "Model ModelRequest ModelResponse Message Usage Follower OpenAIModel Retries Json",
    "Policy": "Policy default_policy load_policy",
    "Judging without executing": (
        "judge build_turn survey answer_need Turn Survey SurveyedResource Catalogue build_catalogue"
    ),
    "Verdicts": (
        "Judgement Verdict Standing Ruling Remedy Number Decision CallRuling DecisionPoint read_decisions Grant Permit"
    ),
    "Log": (
        "Log QuestionStore Blobs Lease Head Draft Event EventBody SqliteLog FileBlobs open_log verify_session "
        "Verification Defect"
    ),
    "Events": (
        "SessionStarted CatalogChanged PolicyChanged TaskStarted UserMessage ModelResponded TurnJudged NeedRaised "
        "NeedAnswered ToolStarted ToolFinished CallAnswered OutcomeUnknown OutcomeResolved EffectUndone "
        "ContextCompressed PlanProposed PlanConfirmed PlanStepChanged TaskPaused TaskEnded SessionEnded "
        "Checkpoint ChangeProposed DecisionLabelled LabelWithdrawn QueueDrawn SessionSignedOff"
    ),
    "Plans": (
        "Configuration load_configuration Planning TaskPlan PlanTask PlannedCall PlanDefect TaskResult PlanReport "
        "with_values"
    ),
    "Trajectories": "Trajectory TrajectoryStep Action RestoredSession restore_trajectory",
    "Errors": (
        "ForegateError InvalidJson PolicyError LogError SessionHeld TamperedLog WorkspaceError NotText SyncError "
        "ModelError ContextTooLong ToolsRefused RuntimeLost UsageError"
    ),
}
TESTING = "ScriptedModel says calls answers ScriptedPerson ScriptError MemoryLog MemoryBlobs MemoryWorkspace"
BRIEF = ("Events",)
"""Groups of which another page documents the fields."""
BARE = {"Session": ("run_child", "subscribe"), "Policy": ("hash",), "Configuration": ()}
"""Classes a user does not construct, with those of their members that are public."""
LONGEST = 100


def page() -> str:
    """Return the whole page; raise ValueError for a public name in no group, or in two."""
    check(foregate, [name for names in GROUPS.values() for name in names.split()] + ["__version__"])
    check(foregate.testing, TESTING.split())
    parts = [HEAD]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        if title in BRIEF:
            parts.append("[The events of a log](events.md) lists the fields of each.\n")
            parts += [f"- `{name}`: {first_sentence(getattr(foregate, name))}" for name in names.split()]
            parts.append("")
        else:
            parts += [entry(name, getattr(foregate, name)) for name in names.split()]
    parts += ["## `foregate.testing`\n", documented(foregate.testing)]
    parts += [entry(name, getattr(foregate.testing, name)) for name in TESTING.split()]
    return "\n".join(parts).rstrip() + "\n"


def check(module: ModuleType, listed: list[str]) -> None:
    """Raise ValueError where the names listed are not exactly those a module exports."""
    if sorted(listed) != sorted(module.__all__):
        raise ValueError(f"put each of these into one group: {set(listed) ^ set(module.__all__)}")


def entry(name: str, value: object) -> str:
    """Return a name's section."""
    parts = [f"### `{name}`\n"]
    if name == "Outcome":
        return f"### `{name}`\n\nThe former name of `RunResult`. It goes away with the next version.\n"
    if name == "Catalogue":
        return (
            f"### `{name}`\n\nA mapping from the names of tools to their `ToolSpec`s, in the order they are offered.\n"
        )
    if name == "Json":
        return f"### `{name}`\n\nThe type of a JSON value without floating-point numbers.\n"
    parts.append(f"```python\n{signature(name, value)}\n```\n")
    parts.append(documented(value))
    if inspect.isclass(value):
        parts += members(value)
    return "\n".join(parts)


def signature(name: str, value: object) -> str:
    """Return a name with what it takes, one parameter a line where that is long."""
    if inspect.isclass(value) and (name in BARE or issubclass(value, (Enum, Exception)) or is_protocol(value)):
        return f"class {name}"
    begin = f"class {name}" if inspect.isclass(value) else f"{asynchronous(value)}def {name}"
    spelt = inspect.signature(value)  # type: ignore[arg-type]
    end = "" if inspect.isclass(value) else f" -> {typed(spelt.return_annotation)}"
    pieces = list(parameters(spelt))
    text = f"{begin}({', '.join(pieces)}){end}"
    if len(text) <= LONGEST:
        return text
    return "\n".join([f"{begin}(", *(f"    {piece}," for piece in pieces), f"){end}"])


def parameters(spelt: inspect.Signature) -> Iterator[str]:
    """Yield the parameters of a signature, without `self`, as they are written in source."""
    keyword = positional = False
    for one in spelt.parameters.values():
        if one.name in ("self", "cls"):
            continue
        if positional and one.kind is not one.POSITIONAL_ONLY:
            yield "/"
        positional = one.kind is one.POSITIONAL_ONLY
        if one.kind is one.KEYWORD_ONLY and not keyword:
            keyword = True
            yield "*"
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        hint = "" if one.annotation is one.empty else f": {typed(one.annotation)}"
        yield f"{stars}{one.name}{hint}" + ("" if one.default is one.empty else f" = {default(one.default)}")
    if positional:
        yield "/"


def typed(hint: object) -> str:
    """Return a type as source spells it, without the modules of its names."""
    text = (
        hint if isinstance(hint, str) else hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
    )
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text.replace("NoneType", "None")).strip("'")


def default(value: object) -> str:
    """Return a default as source spells it, `...` for one that is made anew each time.

    What the environment holds must not be written anywhere.
    """
    if value is os.environ:
        return "os.environ"
    text = value.value if isinstance(value, Enum) else value
    spelt = repr(text)
    return "..." if spelt.startswith("<") else spelt


def is_protocol(value: type) -> bool:
    """Say whether a class is a protocol: anything with its methods will do."""
    return bool(getattr(value, "_is_protocol", False))


def asynchronous(value: object) -> str:
    """Return `async ` for what must be awaited."""
    return "async " if inspect.iscoroutinefunction(value) else ""


def members(value: type) -> Iterator[str]:
    """Yield the public methods, properties and choices of a class that its own body or a base of ours defines."""
    if issubclass(value, Enum):
        yield "One of " + ", ".join(f"`{one.value}`" for one in value) + ".\n"
        return
    rows = [
        row
        for name, member in sorted(defined(value).items())
        if name in BARE.get(value.__name__, (name,)) and (row := described(name, member))
    ]
    if rows:
        yield "\n".join(rows) + "\n"


def defined(value: type) -> dict[str, object]:
    """Return the public members of a class by name."""
    found: dict[str, object] = {}
    for base in value.__mro__[::-1]:
        if base.__module__.startswith("foregate."):
            found |= {name: member for name, member in vars(base).items() if not name.startswith("_")}
    if issubclass(value, foregate.BaseToolSource):  # what says nothing of its own does what its protocol says
        found |= {name: vars(foregate.ToolSource)[name] for name, member in found.items() if not member.__doc__}
    return found


def described(name: str, member: object) -> str:
    """Return a member's line, nothing for a field: fields stand in the signature."""
    if isinstance(member, property) or type(member).__name__ == "cached_property":
        return f"- `{name}`: {first_sentence(member)}"
    function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
    if not inspect.isfunction(function):
        return ""
    spelt = inspect.signature(function)
    line = f"{asynchronous(function)}{name}({', '.join(parameters(spelt))}) -> {typed(spelt.return_annotation)}"
    return f"- `{line}`: {' '.join(documented(function).split())}"


def documented(value: object) -> str:
    """Return a docstring, of a method also that of its contract; raise ValueError where there is none.

    What is indented in it is a block of code.
    """
    text = inspect.getdoc(value)
    if not text or (not inspect.isfunction(value) and getattr(value, "__doc__", None) is None):
        raise ValueError(f"{value} has no docstring")
    paragraphs = []
    for part in text.split("\n\n"):
        paragraphs.append(part if part.startswith("    ") else " ".join(part.split()))
    return "\n\n".join(paragraphs) + "\n"


def first_sentence(value: object) -> str:
    """Return the first sentence of a docstring."""
    return documented(value).split("\n\n")[0].split(". ")[0].strip().rstrip(".") + "."


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
