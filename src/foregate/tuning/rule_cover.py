"""Whether a rule matches whatever another does, for certain, and whether no call can match both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import re2

from foregate.policy.policy import Rule
from foregate.policy.risk.commands import has_words_at
from foregate.policy.risk.globs import fold_name, list_holders, matches_text, split_glob
from foregate.policy.source.strict_yaml import Data
from foregate.policy.source.workspace_file import is_host_covered
from foregate.schemas.strict_json import scrub
from foregate.schemas.tool_spec import Effect, ResourceKind, list_meant_tools

_STANDS_FOR = {"*": "\ue001", "?": "\ue002", "**": "\ue003", "/**": "\ue004", "**/": "\ue005"}
"""The character that stands for each wildcard of the narrower glob."""
_SPECIAL = "".join(_STANDS_FOR.values())
_CROSSING = "\ue003-\ue005"
"""Those whose text may hold a slash."""
_OF_PATHS = {
    "/**": "(?:[/\ue004].*)?",
    "**/": "(?:.*[/\ue005])?",
    "*": f"[^/{_CROSSING}]*",
    "?": f"[^/\ue001{_CROSSING}]",
}
"""What each wildcard of the wider glob takes: `?` takes one character, so never the `*` of the narrower one."""
_OF_TEXTS = {"*": ".*", "?": "[^\ue001]"}
_OPTIONS = re2.Options()
_OPTIONS.dot_nl = True
_OPTIONS.never_nl = False
_OPTIONS.log_errors = False


def is_text_within(narrow: str, wide: str) -> bool:
    """Whether `wide` matches each text that `narrow` does.

    >>> is_text_within("read_*", "*_*"), is_text_within("*_file", "read_*")
    (True, False)
    """
    return _is_within(narrow, wide, paths=False)


def is_path_within(narrow: str, wide: str) -> bool:
    """Whether `wide` matches each path that `narrow` does.

    >>> is_path_within("src/*.py", "src/**"), is_path_within("src/**", "src/*")
    (True, False)
    """
    return _is_within(narrow, wide, paths=True)


def _is_within(narrow: str, wide: str, *, paths: bool) -> bool:
    if any(char in narrow or char in wide for char in _SPECIAL):
        return False
    expression = _compile(wide, paths)
    return expression is not None and expression.fullmatch(_write_as_text(narrow, paths)) is not None


def _write_as_text(glob: str, paths: bool) -> str:
    """Return a glob with a character of its own for each wildcard."""
    anything = _STANDS_FOR["**"]
    pieces = split_glob(scrub(glob), paths)
    return "".join(_STANDS_FOR.get(piece) or (anything if piece[:2] == "**" else piece) for piece in pieces)


@lru_cache(maxsize=2048)
def _compile(glob: str, paths: bool) -> Any:
    """Return the expression of the wider glob, None for one that is too large."""
    known = _OF_PATHS if paths else _OF_TEXTS
    pieces = split_glob(scrub(glob), paths)
    text = "".join(known.get(piece) or (".*" if piece[:2] == "**" else re2.escape(piece)) for piece in pieces)
    try:
        return re2.compile(text, _OPTIONS)
    except re2.error:
        return None


def is_any_within(narrow: Sequence[str], wide: Sequence[str]) -> bool:
    """Whether whatever matches one of some globs of paths matches one of others."""
    return all(any(is_path_within(one, other) for other in wide) for one in narrow)


def protect_beneath(pattern: str) -> str:
    """Return the glob of what a strict rule's glob protects: see `matches_beneath`."""
    return f"{fold_name(pattern).rstrip('/')}/**"


def list_holding(pattern: str) -> list[str]:
    """Return the globs of the folders in which something may match: see `may_hold`."""
    here = [] if pattern.startswith("/") else [".", ""]
    return [*here, *list_holders(fold_name(pattern))]


MATCHERS = tuple(name for name in Rule.model_fields if name not in ("id", "then", "message", "stands_for"))
"""What a rule may say of the calls it is about."""
_EVERYTHING: Mapping[str, Callable[[Data], bool]] = {
    "tool": lambda said: not said.strip("*"),
    "risk_at_least": lambda said: said == 0,
    "effect": lambda said: {*said} == {*Effect},
    "capability": lambda said: not said,
}
"""Per matcher what matches every call."""
_SHELL = " \t\n;|&()`<>="
_WILD = "*?"


def covers(wide: Rule, narrow: Rule) -> bool:
    """Whether a rule matches whatever another does, or cannot be applied to it; False where that is not certain.

    A strict rule looks for any resource, ignores case and reaches what lies beneath; an allow rule wants all resources
    to fit exactly. So an allow rule never covers a strict one.
    """
    if wide.then == "allow" and narrow.then != "allow":
        return False
    for name in MATCHERS:
        wanted, given = getattr(wide, name), getattr(narrow, name)
        if wanted is None or (name in _EVERYTHING and _EVERYTHING[name](wanted)):
            continue
        if given is None or not (name in _BY_BOTH or _COVER[name](wanted, given)):
            return False
    return all(is_covered(wide, narrow) for is_covered in (_is_tool_covered, _is_command_covered, _is_place_covered))


def _is_tool_covered(wide: Rule, narrow: Rule) -> bool:
    if wide.tool is None or not wide.tool.strip("*"):
        return True
    if narrow.tool is None or not is_text_within(narrow.tool, wide.tool):
        return False
    meant = list_meant_tools(narrow.tool) if narrow.then != "allow" else ()
    known = list_meant_tools(wide.tool)
    return all(tool in known or matches_text(wide.tool, tool) for tool in meant)


def _is_place_covered(wide: Rule, narrow: Rule) -> bool:
    """Whether a resource that fits one rule by its name and kind fits the other; see `is_resource_match`."""
    strict = narrow.then != "allow"
    inside = strict and narrow.resource is not None
    # A folder of another kind, inside.
    reaches = wide.kind is not None and wide.kind is not ResourceKind.DIRECTORY
    if wide.resource is None:
        return not (inside and reaches)
    if narrow.resource is None:
        return False
    if wide.then == "allow":
        return is_path_within(narrow.resource, wide.resource)
    beneath = protect_beneath(wide.resource)
    if not strict:
        return is_path_within(narrow.resource, beneath)
    if not is_path_within(protect_beneath(narrow.resource), beneath):
        return False
    holders = list_holding(wide.resource)
    return is_any_within(list_holding(narrow.resource), holders if reaches else [*holders, beneath])


def _is_command_covered(wide: Rule, narrow: Rule) -> bool:
    """Whether a rule's words are met by whatever meets those of another; see `is_command_match`."""
    wanted, given = wide.command, narrow.command
    if wanted is None:
        return True
    if given is None:
        return False
    if wide.then == "allow":
        return len(wanted) <= len(given) and all(map(is_text_within, given, wanted))
    if narrow.then != "allow":
        return _are_words_covered(wanted, given)
    plain = not any(char in word for word in given for char in f"{_WILD}{_SHELL}")
    return plain and has_words_at(wanted, given)


def _are_words_covered(wanted: tuple[str, ...], given: tuple[str, ...]) -> bool:
    """Whether words are found wherever others are: options anywhere, further words in order, the last one by a glob."""
    if not is_text_within(given[0], wanted[0]):
        return False
    (options, names), (others, more) = _split_options(wanted[1:]), _split_options(given[1:])
    if not all(any(is_text_within(other, option) for other in others) for option in options):
        return False
    more = more[: len(names)]
    return names[:-1] == more[:-1] and len(names) == len(more) and (not names or is_text_within(more[-1], names[-1]))


def _split_options(words: tuple[str, ...]) -> tuple[list[str], list[str]]:
    return [word for word in words if word.startswith("-")], [word for word in words if word[:1] != "-"]


_BY_BOTH = ("tool", "command", "resource")
"""Matchers whose cover hangs on both rules as a whole."""
_COVER: Mapping[str, Callable[[Data, Data], bool]] = {
    "effect": lambda wide, narrow: {*narrow} <= {*wide},
    "protected": lambda wide, narrow: {*narrow} <= {*wide},
    "capability": lambda wide, narrow: {*wide} <= {*narrow},
    "host": is_host_covered,
    "risk_at_least": lambda wide, narrow: wide <= narrow,
    "kind": lambda wide, narrow: wide is narrow,
    "origin": lambda wide, narrow: wide is narrow,
    "secrets": lambda wide, narrow: wide is narrow,
}
"""Per matcher whether one value takes in whatever another does."""


def can_be_unclear(rule: Rule, beside: Rule | None = None) -> bool:
    """Whether a strict rule may hold a call it cannot be compared with where another one, that covers it, does not.

    The words of a command and the host of an address are what may be unreadable. A rule that denies without a look at
    what comes after them in `is_match` denies such a call.
    """
    if rule.then == "allow":
        return False
    if beside is None:
        return rule.host is not None or rule.command is not None
    denies = beside.then == "deny"
    by_host = rule.host is not None and beside.host is None and not (denies and beside.resource is None)
    looks = any(one is not None for one in (beside.kind, beside.resource, beside.protected, beside.host))
    return by_host or (rule.command is not None and beside.command is None and not (denies and not looks))


def are_disjoint(strict: Rule, other: Rule) -> bool:
    """Whether no call can match a strict rule and a weaker one; False where that is not certain."""
    if strict.secrets is not None and other.secrets is not None and strict.secrets != other.secrets:
        return True
    if other.then == "allow" and strict.effect is not None and other.effect is not None:
        apart = not {*strict.effect} & {*other.effect} and Effect.OBSERVATION not in strict.effect
        if apart:
            return True
    if strict.tool is None or other.tool is None or _is_open(strict.tool):
        return False
    names = _list_names(strict.tool)
    if other.then == "allow":
        return not any(matches_text(other.tool, name) for name in names)
    return not _is_open(other.tool) and names.isdisjoint(_list_names(other.tool))


def _is_open(glob: str) -> bool:
    return any(char in glob for char in _WILD)


def _list_names(tool: str) -> set[str]:
    """Return the names of the tools that a strict rule about one is about, under whatever name the model sends it."""
    # What a line that is sent there is taken for.
    line = ["run_shell"] if tool == "run_command" else []
    return {tool, *list_meant_tools(tool), *line}
