"""Write docs/reference/python.md: every public name with its signature and docstring. Each name must have a group."""

from __future__ import annotations

import inspect
import os
import re
import runpy
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from textwrap import fill
from types import ModuleType
from typing import Any, get_args

from msgspec import Struct

import foregate
import foregate.testing
from foregate.schemas.event import Body
from foregate.schemas.event_body import EventBody, get_kind

PAGE = Path(__file__).with_name("reference") / "python.md"
HEAD = """\
# The Python library

Generated from signatures and docstrings by `docs/make_python.py`.

Everything public is in `foregate` and `foregate.testing`. Other modules may change without notice. All of it is typed,
and `import foregate` loads a name only when you use it. Fields of a class are its parameters, in order: `X[]` is a
tuple of X, `X?` may be None, and `name?` may be left out, for None, an empty value or one made anew.
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
EVENTS: Mapping[str, Any] = runpy.run_path(str(Path(__file__).with_name("make_events.py")))
RECORDED = set(EVENTS["nested"](*get_args(Body)))
"""Classes whose fields the page of the events lists."""
BARE = {"Session": ("run_child", "subscribe"), "Policy": ("hash",), "Configuration": ()}
"""Classes a user does not construct, with those of their members that are public."""
WHOLE = ("Agent", "Approvals", "Log", "QuestionStore", "Session", "ToolSource", "Workspace")
"""Classes whose methods are shown with all that is said of them; of others the first sentence is."""
LONGEST = 100
EMPTY = ("None", "''", "()", "0", "False", "...", "{}")
"""Defaults that a field is shown without."""


def page() -> str:
    """Return the whole page; raise ValueError for a public name in no group, or in two."""
    check(foregate, [name for names in GROUPS.values() for name in names.split()] + ["__version__"])
    check(foregate.testing, TESTING.split())
    parts = [HEAD]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        if title == "Events":
            parts.append(
                ", ".join(f"[`{name}`]({find_fields(getattr(foregate, name))})" for name in names.split()) + ".\n"
            )
        else:
            parts += [entry(name, getattr(foregate, name)) for name in names.split()]
    parts += ["## `foregate.testing`\n", documented(foregate.testing)]
    parts += [entry(name, getattr(foregate.testing, name)) for name in TESTING.split()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


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
    if inspect.isclass(value) and value in RECORDED:
        return f"### `{name}`\n\n{first_sentence(value)} [Fields]({find_fields(value)}).\n\n" + "\n".join(
            members(value)
        )
    if name == "Json":
        return f"### `{name}`\n\nThe type of a JSON value without floating-point numbers.\n"
    if inspect.isclass(value) and is_record(value):
        parts += [documented(value), ", ".join(f"`{field}`" for field in parameters(inspect.signature(value))) + "\n"]
    else:
        about = documented(value)
        parts += [signature(name, value), about.split("\n\n")[0] + "\n" if name in BARE else about]
    if inspect.isclass(value):
        parts += members(value)
    return "\n".join(parts)


def is_record(value: type) -> bool:
    """Say whether a class is nothing but its fields."""
    return (issubclass(value, Struct) or is_dataclass(value)) and value.__name__ not in BARE


def find_fields(value: type) -> str:
    """Return where the page of the events lists the fields of a class."""
    is_event = issubclass(value, EventBody) and value is not EventBody
    return f"events.md#{get_kind(value) if is_event else value.__name__.lower()}"


def signature(name: str, value: object) -> str:
    """Return what a name takes and returns, as a block of code where that is long."""
    if inspect.isclass(value) and (name in BARE or issubclass(value, (Enum, Exception)) or is_protocol(value)):
        return ""
    text = spell(name, value)
    return f"`{text}`\n" if len(text) <= LONGEST else "```\n" + fill(text, LONGEST, subsequent_indent="  ") + "\n```\n"


def spell(name: str, value: object) -> str:
    """Return a name with its parameters, and what a function returns."""
    spelt = inspect.signature(value)  # type: ignore[arg-type]
    end = (
        ""
        if inspect.isclass(value) or typed(spelt.return_annotation) == "None"
        else f" -> {typed(spelt.return_annotation)}"
    )
    return f"{'async ' if inspect.iscoroutinefunction(value) else ''}{name}({', '.join(parameters(spelt))}){end}"


def parameters(spelt: inspect.Signature) -> Iterator[str]:
    """Yield the parameters of a signature without `self`, with the marks of those by place and by name alone."""
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
        yield {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "") + spell_parameter(one)
    if positional:
        yield "/"


def spell_parameter(one: inspect.Parameter) -> str:
    """Return a parameter as `name: type`, `name?: type` where it may be left out, or with its default behind it."""
    hint = "" if one.annotation is one.empty else f": {typed(one.annotation)}"
    shown = "" if one.default is one.empty else default(one.default)
    if shown in EMPTY or shown.endswith(")"):
        return f"{one.name}?{hint}"
    return f"{one.name}{hint}" + (f" = {shown}" if shown else "")


def typed(hint: object) -> str:
    """Return a type as source spells it, shortened as the head of the page says, without the modules of its names."""
    text = (
        hint if isinstance(hint, str) else hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
    )
    text = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text.replace("NoneType", "None")).strip("'")
    if text.startswith("Literal["):
        text = (
            re.sub(r"[', ]+", "|", text.removeprefix("Literal['").removesuffix("']")) if len(text) < LONGEST else "str"
        )
    return re.sub(r" \| None$", "?", re.sub(r"tuple\[([\w.]+), \.\.\.\]", r"\1[]", text)).replace(" | ", "|")


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


def members(value: type) -> Iterator[str]:
    """Yield the public methods and properties of a class that its own body or a base of ours defines."""
    if issubclass(value, Enum):
        return
    kept = contracts(value)
    known = {name for contract in kept for name in defined(contract)}
    rows = [
        row
        for name, member in sorted(defined(value).items())
        if name in BARE.get(value.__name__, (name,))
        and name not in known
        and (row := described(name, member, value.__name__))
    ]
    if kept:
        rows.insert(0, "- All of " + " and ".join(f"[`{one.__name__}`](#{one.__name__.lower()})" for one in kept) + ".")
    if rows:
        yield "\n".join(rows) + "\n"


def contracts(value: type) -> list[type]:
    """Return the public protocols that a class fulfils: it has each of their methods with the same parameters."""
    if is_protocol(value):
        return []
    named = (getattr(foregate, name) for name in foregate.__all__)
    return [one for one in named if inspect.isclass(one) and is_protocol(one) and fulfils(value, one)]


def fulfils(value: type, contract: type) -> bool:
    """Say whether a class has each method of a protocol with its parameters."""
    own = defined(value)
    wanted = {name: member for name, member in defined(contract).items() if inspect.isfunction(member)}
    return bool(wanted) and all(names_of(member) <= names_of(own.get(name)) for name, member in wanted.items())


def names_of(function: Any) -> set[str]:
    """Return the names of a function's parameters, none for anything else."""
    return set(inspect.signature(function).parameters) if inspect.isfunction(function) else set()


def defined(value: type) -> dict[str, object]:
    """Return the public members of a class by name."""
    found: dict[str, object] = {}
    for base in value.__mro__[::-1]:
        if base.__module__.startswith("foregate."):
            found |= {name: member for name, member in vars(base).items() if not name.startswith("_")}
    return found


def described(name: str, member: object, owner: str) -> str:
    """Return a member's line, nothing for a field: fields stand in the signature."""
    if isinstance(member, property) or type(member).__name__ == "cached_property":
        return f"- `{name}`: {first_sentence(member)}"
    function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
    if not inspect.isfunction(function):
        return ""
    about = " ".join(documented(function).split()) if owner in WHOLE else first_sentence(function)
    return f"- `{spell(name, function)}`: {about}"


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
