"""What rules may match of a recorded call, without its words: enough to tell which rules cannot be about it."""

from __future__ import annotations

import zlib

from msgspec import Struct

from foregate.policy.policy import Policy, Rule
from foregate.policy.risk.commands import list_words, split_shell_words
from foregate.policy.risk.handed_on import has_handed_words
from foregate.policy.risk.handed_text import read_handed_texts
from foregate.policy.risk.program_name import get_program_name
from foregate.policy.risk.request import remember
from foregate.policy.risk.rule_matching import is_tool_named
from foregate.policy.risk.running import is_computed
from foregate.schemas.errors import PolicyError
from foregate.schemas.tool_call import CallFacts, Command
from foregate.schemas.tool_spec import ResourceKind

_WILD = "*?["
_PLACED = (ResourceKind.URL.value, ResourceKind.HOST.value)


class CallTraits(Struct, frozen=True, array_like=True):
    """What a call is like. `words` are checksums of the words a command rule may begin with, None where not known."""

    name: str
    sent: str
    is_own: bool
    problem: bool
    secrets: bool
    effects: tuple[str, ...]
    kinds: tuple[str, ...]
    protected: tuple[str, ...]
    origins: tuple[str, ...]
    words: tuple[int, ...] | None


def describe_traits(facts: CallFacts, policy: Policy) -> CallTraits:
    """Return what a call is like under a policy, which says what programs run."""
    survey, call = facts.survey, facts.call
    return CallTraits(
        call.name,
        call.sent.name if call.sent is not None else call.name,
        facts.spec is not None and facts.spec.provenance == "builtin",
        bool(survey.problem),
        bool(survey.secrets),
        tuple(sorted({facts.effect.value, *(one.effect.value for one in facts.resources)})),
        tuple(sorted({one.kind.value for one in facts.resources})),
        tuple(sorted({one.protected for one in facts.resources})),
        tuple(sorted({atom.origin.value for atom in survey.atoms})),
        _sum_words(survey.command, policy) if survey.command is not None else (),
    )


@remember
def _sum_words(command: Command, policy: Policy) -> tuple[int, ...] | None:
    if command.problem or read_handed_texts(command, policy):
        return None
    try:
        words = list_words(split_shell_words(command.shell) if command.shell else list(command.argv))
    except PolicyError:
        return None
    if has_handed_words(words, policy.commands.completes) or any(map(is_computed, words)):
        return None  # what is read or computed may be any of them
    return tuple(sorted({checksum(form) for word in words for form in (word, get_program_name(word))}))


def checksum(word: str) -> int:
    return zlib.crc32(word.casefold().encode("utf-8", "surrogatepass"))


def may_match(rule: Rule, call: CallTraits) -> bool:
    """Whether a rule could match a call of which no more is known; never False for one it does match."""
    if rule.tool is not None and not is_tool_named(rule.tool, call.name, call.sent, is_own=call.is_own):
        return False
    if rule.effect is not None and not set(rule.effect).intersection(call.effects):
        return False
    if call.problem or (rule.command is not None and call.words is None):
        return True  # whether it matches cannot be told, whatever else the rule is about
    if rule.secrets is not None and rule.secrets != call.secrets:
        return False
    if rule.origin is not None and rule.origin.value not in call.origins:
        return False
    if rule.command is not None and not _may_begin(rule.command[0], call.words):
        return False
    if rule.protected is not None and not set(rule.protected).intersection(call.protected):
        return False
    if rule.host is not None and not set(_PLACED).intersection(call.kinds):
        return False
    looks = rule.kind is not None or rule.resource is not None
    return not looks or _may_name(rule, call)


def _may_begin(word: str, words: tuple[int, ...] | None) -> bool:
    if words is None:
        return True
    return bool(words) if any(char in word for char in _WILD) else checksum(word) in words


def _may_name(rule: Rule, call: CallTraits) -> bool:
    """Whether a call names anything of a rule's kind, or a directory in which there may be such a thing."""
    inside = rule.resource is not None and ResourceKind.DIRECTORY.value in call.kinds
    return bool(call.kinds) and (rule.kind is None or rule.kind.value in call.kinds or inside)
