"""Conditions of one rule that contradict each other, so that it can never match."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from foregate.policy.policy import Policy, Rule
from foregate.policy.risk.globs import matches_text
from foregate.policy.source.strict_yaml import Data, escape_text
from foregate.schemas.tool_spec import TOOLS, Effect, ResourceKind, ToolSpec, list_meant_tools, spell_name
from foregate.tuning.lint_settings import compute_most_risk

_PLACED = (ResourceKind.URL, ResourceKind.HOST)
_PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.OTHER)
_APPLIED = frozenset({Effect.CREATE, Effect.EDIT, Effect.MOVE, Effect.DELETE})
"""What a command may have done in its sandbox."""
_OF_COMMANDS = frozenset({Effect.OBSERVATION, Effect.EXECUTE, Effect.UNKNOWN, *_APPLIED})
"""What a command does, and what it can be taken for; what it sends or commits nobody sees beforehand."""
_FOREIGN = (*TOOLS, "apply_patch", "str_replace_editor", "str_replace_based_edit_tool", "text_editor")
UNREAD = "; it only holds what it cannot be compared with"
"""What a strict rule that never matches does with a call that cannot be read."""
_NOT_READ = frozenset(Effect) - {Effect.OBSERVATION, Effect.UNKNOWN}


class OwnTool(Struct, frozen=True, dict=True):
    """What calls of a tool of Foregate's own can be."""

    spec: ToolSpec

    @cached_property
    def kinds(self) -> frozenset[ResourceKind]:
        """The kinds of things a call names."""
        found = {target.kind for target in self.spec.targets}
        if self.runs:
            found |= {*_PATHS, ResourceKind.REPOSITORY}
        if found & {*_PATHS[:2]}:
            found |= {*_PATHS}
        return frozenset(found | ({ResourceKind.HOST} if ResourceKind.URL in found else set()))

    @cached_property
    def runs(self) -> bool:
        return any(target.kind is ResourceKind.PROCESS for target in self.spec.targets)

    @cached_property
    def effects(self) -> frozenset[Effect]:
        """The effects a call can have, on any of what it names."""
        found = {self.spec.effect, *(target.access for target in self.spec.targets)}
        found |= {Effect.EDIT} if Effect.CREATE in found else set()
        found |= {Effect.SEND} if ResourceKind.URL in self.kinds else set()
        return frozenset(found | ({Effect.OBSERVATION, *_APPLIED} if self.runs else set()))

    @cached_property
    def flags(self) -> frozenset[str]:
        """The capabilities a call can have; in a sandbox it has others."""
        own = self.spec.capabilities
        found = {flag for flag in own.__struct_fields__ if getattr(own, flag)} if own is not None else set()
        return frozenset(found | ({"reversible"} if self.runs else set()))

    @cached_property
    def carries(self) -> bool:
        """Whether a call may commit or send something in which secrets are looked for."""
        sends = {Effect.SEND, Effect.COMMIT} & self.effects
        return bool(sends) or self.runs

    @cached_property
    def is_protectable(self) -> bool:
        return bool(self.kinds & {*_PATHS, ResourceKind.REPOSITORY})


def find_contradictions(
    rule: Rule, policy: Policy, tools: Sequence[ToolSpec], others: Collection[str]
) -> Iterator[str]:
    """Yield why a rule never matches, with the two conditions that contradict each other.

    `tools` are those of Foregate's own, `others` the names of further ones that are known.
    """
    # Its command is looked at first.
    unread = UNREAD if rule.command is not None and rule.then != "allow" else ""
    yield from (f"{why}{unread}" for why in _find_between_places(rule, policy))
    yield from _find_between_traits(rule, policy)
    yield from _find_with_tool(rule, policy, tools, others)


def _find_between_places(rule: Rule, policy: Policy) -> Iterator[str]:
    """Yield which conditions about what a call names no call meets together."""
    kind = rule.kind
    if rule.host is not None and kind is not None and kind not in _PLACED:
        yield f"a {kind.value} has no host{_name('kind', 'host')}"
    if rule.host is not None and rule.protected is not None:
        yield f"nothing that has a host is protected{_name('host', 'protected')}"
    if kind in _PLACED and rule.protected is not None:
        yield f"a {kind.value} is never protected{_name('kind', 'protected')}"
    if rule.command is None or _has_own_commands(policy):
        return
    if rule.host is not None:
        yield f"nobody sees which host a command reaches{_name('command', 'host')}; see `commands.access`"
    if kind in _PLACED:
        yield f"a command names no {kind.value}{_name('command', 'kind')}; see `commands.access`"


def _find_between_traits(rule: Rule, policy: Policy) -> Iterator[str]:
    """Yield which conditions about what a call does no call meets together."""
    effects = frozenset(rule.effect or Effect)
    if rule.command is not None and not effects & _OF_COMMANDS and not _has_own_commands(policy):
        said = _say(rule.effect)
        yield f"a command is never taken for `{said}`{_name('command', 'effect')}; its effect is `execute`"
    if "read_only" in (rule.capability or ()):
        if rule.effect and effects <= _NOT_READ:
            yield f"what only reads changes nothing{_name('capability', 'effect')}"
        if "high_impact_write" in (rule.capability or ()):
            yield "what only reads writes nothing (`read_only` and `high_impact_write` of `capability` contradict)"
    if rule.then == "allow" and rule.risk_at_least is not None and effects == {Effect.OBSERVATION}:
        most = compute_most_risk(policy, effects)
        if most < rule.risk_at_least:
            yield f"an observation has a risk of {most} at most{_name('effect', 'risk_at_least')}"


def _has_own_commands(policy: Policy) -> bool:
    """Whether the operator says of a tool that it runs commands: it may do anything else as well."""
    entries = (entry.targets or {} for entry in policy.tools.values())
    return any(target.kind is ResourceKind.PROCESS for targets in entries for target in targets.values())


def _find_with_tool(rule: Rule, policy: Policy, tools: Sequence[ToolSpec], others: Collection[str]) -> Iterator[str]:
    """Yield which condition no tool that the rule names can meet, as far as all of those are Foregate's own."""
    glob = rule.tool or ""
    if not glob.strip("*") or any(matches_text(glob, name) for name in (*others, *policy.tools)):
        return
    own = list_named_tools(rule, tools)
    if any(tool.spec.name in policy.tools for tool in own):
        return
    if not own:
        meant = sorted(list_meant_tools(glob)) if rule.then == "allow" and tools else []
        if meant:
            yield f"`allow` goes by Foregate's own names; write `{meant[0]}` for `{escape_text(glob)}`"
        return
    who = (
        f"`{escape_text(glob)}` never"
        if len(own) == 1
        else f"no tool of Foregate's own named `{escape_text(glob)}` ever"
    )
    for name, can_meet, does in _CONDITIONS:
        wanted = getattr(rule, name)
        if wanted is not None and not any(can_meet(tool, wanted, rule) for tool in own):
            yield f"{who} {does.format(_say(wanted))}{_name('tool', name)}"
    if rule.risk_at_least is not None:
        most = max(compute_most_risk(policy, one.effects) for one in own)
        if most < rule.risk_at_least:
            yield f"`{escape_text(glob)}` has a risk of {most} at most{_name('tool', 'risk_at_least')}"


def list_named_tools(rule: Rule, tools: Sequence[ToolSpec]) -> list[OwnTool]:
    """Return the tools of Foregate's own a rule names; a strict one also by what other agents call them."""
    glob = rule.tool or ""
    names = {tool.name for tool in tools if matches_text(glob, tool.name)}
    if rule.then != "allow":
        foreign = [glob, *(name for name in _FOREIGN if matches_text(spell_name(glob), name))]
        names = names.union(*map(list_meant_tools, foreign))
        # A line that is sent there.
        names |= {"run_shell"} if "run_command" in names else set()
    return [OwnTool(tool) for tool in tools if tool.name in names]


def _has_effect(tool: OwnTool, wanted: Data, rule: Rule) -> bool:
    return bool({*wanted} & tool.effects)


def _has_kind(tool: OwnTool, wanted: Data, rule: Rule) -> bool:
    inside = rule.then != "allow" and rule.resource is not None and ResourceKind.DIRECTORY in tool.kinds
    return wanted in tool.kinds or inside


_CONDITIONS: tuple[tuple[str, Callable[[OwnTool, Data, Rule], bool], str], ...] = (
    ("effect", _has_effect, "has the effect `{}`"),
    ("command", lambda tool, wanted, rule: tool.runs, "runs a command"),
    ("kind", _has_kind, "names a {}"),
    ("host", lambda tool, wanted, rule: bool(tool.kinds & {*_PLACED}), "reaches a host"),
    ("resource", lambda tool, wanted, rule: bool(tool.kinds), "names a resource"),
    ("protected", lambda tool, wanted, rule: tool.is_protectable, "names a path"),
    ("capability", lambda tool, wanted, rule: {*wanted} <= tool.flags, "has the capability `{}`"),
    ("secrets", lambda tool, wanted, rule: tool.carries or not wanted, "sends or commits anything"),
)
"""Each condition, whether a tool can meet it, and what one that can does."""


def _say(wanted: Data) -> str:
    return ", ".join(map(str, wanted)) if isinstance(wanted, tuple) else str(wanted)


def _name(first: str, second: str) -> str:
    return f" (`{first}` and `{second}` contradict each other)"
