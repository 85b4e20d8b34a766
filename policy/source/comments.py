"""The comments that explain keys, read from the default files they stand in, and what the keys of entries mean."""

from __future__ import annotations

from collections.abc import Mapping

from foregate.policy.source.keys import POLICY
from foregate.policy.source.shipped import FOLDER, parse_default
from foregate.policy.source.strict_yaml import Path, format_path

_RULE = {
    "id": "The rule's name: small letters, digits, `_`, `.` and `-`. A rule of the same id takes its place.",
    "then": "What follows where all matchers match: deny beats ask beats allow.",
    "message": "What the model and the person are told.",
    "stands_for": "`approval`: this allow rule is your yes to what it matches, for a `tool` or a `command` it names.",
    "tool": "The tool's name, as a glob.",
    "effect": "What the call would do: one of these.",
    "kind": "The kind of a resource it would touch.",
    "resource": "A resource it would touch, as a glob; `**` crosses folders.",
    "protected": "Why a path it would touch is protected: one of these.",
    "command": "The program and its leading arguments.",
    "host": "The host it would reach: `example.org`, `*.example.org` or `*`.",
    "capability": "What the tool is declared to be: all of these.",
    "risk_at_least": "Its risk, in thousandths, or more.",
    "origin": "Who named its target first.",
    "secrets": "Whether what would leave may hold a secret.",
}
_TOOL = {
    "effect": "What a call of the tool does.",
    "read_only": "Whether it changes nothing.",
    "external_side_effect": "Whether it reaches beyond this machine.",
    "needs_approval": "Whether each call needs a yes.",
    "idempotent": "Whether doing it twice is the same as once.",
    "high_impact_write": "Whether what it changes matters much.",
    "reversible": "Whether what it does can be undone.",
    "personal_memory": "Whether it only writes the agent's own memory.",
    "targets": "Its parameters that name a resource, each with the resource's kind and what is done to it.",
    "amounts": "Its parameters that are amounts.",
    "texts": "Its parameters that are free text.",
}
_READ_ONLY = {
    "options": "Options that keep the program from changing anything; `-#` is a number.",
    "valued": "Options like these whose value is the next word.",
    "beneath": "Those of the options with which it reads what is in folders.",
    "subcommands": "Words that must follow the program.",
    "operands": "Whether further words may follow.",
}
_READS = {
    "work": "Options and words that make the command a change.",
    "patterns": "RE2 patterns that make it a change where one matches its words.",
    "operands": "How many operands it may have and still read.",
    "beside": "Options beside which any number of operands reads.",
    "valued": "Options whose value is the next word.",
    "texts": "How many of the first operands name no files.",
    "instead": "Options that give what those operands would.",
}
_REQUIREMENT = {
    "effects": "The effects that need the evidence.",
    "kind": "The kind of resource it is for.",
    "accepts": "The kinds of evidence that will do.",
    "content": "`same`: the content now was observed; `not_changed`: it did not change since; `any` never compares.",
    "whole": "Whether all of the content must have been observed.",
    "remedy": "The tool that brings the evidence.",
    "parameter": "Its parameter that takes the resource.",
}
_TARGET = {"kind": "The kind of resource the parameter names.", "access": "What is done to it."}
_SELF_RUNNING = {
    "paths": "The files, as globs.",
    "when": "Which program runs them and when, as the end of a sentence.",
    "keys": "Dotted keys of their JSON or TOML; only what a change puts under one of them counts.",
}
_ENTRIES = {
    "rules.list.*": _RULE,
    "tools.*": _TOOL,
    "tools.*.targets.*": _TARGET,
    "commands.read_only.*": _READ_ONLY,
    "commands.reads.*": _READS,
    "evidence.requirements.*": _REQUIREMENT,
    "files.runs_by_itself.*": _SELF_RUNNING,
}
ENTRY_WORDS: Mapping[str, str] = {
    f"{entry}.{key}": words for entry, keys in _ENTRIES.items() for key, words in keys.items()
}
"""Sentences by dotted key, with `*` for the name of an entry."""


def explain_key(path: Path) -> str:
    """Return what a key of the policy does: its comment, or that of the nearest key around it that has one.

    A key of an entry, such as a rule's, has its own words. The comment of a mapping within a section stands before
    those of its keys.
    """
    if (words := find_entry_words(path)) is not None:
        return words
    comments = parse_default(FOLDER)[1]
    own = next((end for end in range(len(path), 0, -1) if format_path(path[:end]) in comments), 0)
    said = comments.get(format_path(path[:own]), "")
    over = comments.get(format_path(path[: own - 1]), "") if own > 2 else ""
    return join_comments(over, said)


def join_comments(over: str, said: str) -> str:
    """Return the comment of a key behind that of the mapping it stands in, which may be "" for none."""
    return f"{over.rstrip('.')}: {said[:1].lower()}{said[1:]}" if over else said


def find_entry_words(path: Path) -> str | None:
    """Return the words for a key of an entry, whatever the entry is called; None for another key."""
    names = [str(step) for step in path]
    for place in range(1, len(path)):
        outer = POLICY.find_node(tuple(0 if name == "*" else name for name in path[:place]))
        if outer is None or ("items" not in outer and not isinstance(outer.get("additionalProperties"), Mapping)):
            continue
        pattern = ".".join([*names[:place], "*", *names[place + 1 :]])
        if pattern in ENTRY_WORDS:
            return ENTRY_WORDS[pattern]
    return None
