"""What types cannot say: patterns that compile, names that exist, rules that can match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from operator import attrgetter

import re2

from foregate.policy.policy import Policy, Rule
from foregate.policy.risk.globs import compile_glob
from foregate.policy.risk.http import normalise_host
from foregate.policy.risk.request import split_phrase
from foregate.policy.source.strict_yaml import Path, escape_text, format_path
from foregate.schemas.tool_spec import Capabilities, Effect

PROTECTIONS = ("outside_workspace", "git_internal", "foregate", "secret")
"""Why a resource may be protected, as the survey says it."""

_FLAGS = tuple(Capabilities.__struct_fields__)
_HOST_GLOB = re.compile(r"\*|(\*\.)?[^*]+")
_BRACKETS = re.compile(r"\[[^\[\]]+\]|\{[^{}]+\}")
_MATCHERS = tuple(name for name in Rule.model_fields if name not in ("id", "then", "message"))


def find_defects(policy: Policy) -> Iterator[tuple[Path, str]]:
    """Yield the path and a sentence for everything in a well-typed policy that could never work."""
    for number, rule in enumerate(policy.rules.list):
        for key, sentence in find_rule_defects(rule):
            yield ("rules", "list", number, *key), f"the rule `{rule.id}` {sentence}"
    of_phrases = {f"contract.{name}": explain_bad_phrase for name in type(policy.contract).model_fields}
    for name, explain in (_EXPLAIN | of_phrases).items():
        for number, value in enumerate(attrgetter(name)(policy)):
            if why := explain(value):
                yield (*name.split("."), number), why
    for program in policy.commands.read_only:
        if not program or "/" in program:
            yield ("commands", "read_only", program), "a program is listed by its bare name, without a path"
    missing = [effect.value for effect in Effect if effect not in policy.scores.risk.effect]
    if missing:
        yield ("scores", "risk", "effect"), f"a weight is missing for {', '.join(missing)}; give each effect one"


def find_rule_defects(rule: Rule) -> Iterator[tuple[Path, str]]:
    """Yield what is wrong with one rule."""
    given = [name for name in _MATCHERS if getattr(rule, name) is not None]
    if not given:
        yield (), 'matches nothing in particular; give it a matcher (`tool: "*"` is every call)'
    for name in given:
        value = getattr(rule, name)
        if isinstance(value, tuple) and not value:
            yield (name,), f"has an empty `{name}`, which matches nothing; name something or leave it out"
    for name, explain in (("tool", explain_bad_glob), ("resource", explain_bad_glob), ("host", explain_bad_host)):
        if (said := getattr(rule, name)) is not None and (why := explain(said)):
            yield (name,), f"has an unusable `{name}`: {why}"
    for name, known in (("protected", PROTECTIONS), ("capability", _FLAGS)):
        for entry in getattr(rule, name) or ():
            if entry not in known:
                names = ", ".join(f"`{one}`" for one in known)
                yield (name,), f"names the {name} `{escape_text(entry)}`, which is none; allowed are {names}"


def find_surprises(policy: Policy) -> Iterator[tuple[Path, str]]:
    """Yield the path and a sentence for every glob with brackets that only elsewhere stand for more than themselves."""
    for path, key, glob in find_globs(policy):
        found = next((one for one in _BRACKETS.findall(glob) if one[0] == "[" or "," in one or ".." in one), "")
        if found:
            shown = f"`{escape_text(key)}`: `{escape_text(found)}` in `{escape_text(glob)}`"
            sentence = f"{shown} matches only these characters themselves"
            yield path, f"{sentence}; for a choice write a pattern for each, or `?` for any one character"


def find_globs(policy: Policy) -> Iterator[tuple[Path, str, str]]:
    """Yield path, key as shown, and text of every glob of paths, tools and words of commands."""
    for number, rule in enumerate(policy.rules.list):
        for name in ("tool", "resource", "command"):
            value = getattr(rule, name)
            for glob in (value,) if isinstance(value, str) else value or ():
                yield ("rules", "list", number, name), format_path(("rules", "list", rule.id, name)), glob
    for name in ("protected", "secret"):
        for number, glob in enumerate(getattr(policy.files, name)):
            yield ("files", name, number), format_path(("files", name, number)), glob


def explain_bad_glob(glob: str) -> str:
    """Return why a glob cannot be used, "" when it can."""
    if not glob:
        return "an empty pattern matches nothing; write a path or a glob such as `logs/**`"
    try:
        compile_glob(glob)
    except ValueError as error:
        return str(error)
    return ""


def explain_bad_words(entry: str) -> str:
    """Return why leading words of a command cannot be listed, "" when they can."""
    words = entry.split()
    if not words or words[0].startswith("-") or words[0] == "...":
        return f"`{escape_text(entry)}` names no program; write it first, as in `env ...`"
    if "..." in words[:-1]:
        return f"`{escape_text(entry)}` goes on behind `...`, which says that no further word matters; put it last"
    return next((why for word in words if (why := explain_bad_glob(word))), "")


def explain_bad_host(host: str) -> str:
    """Return why a host cannot be listed, "" when it can."""
    bare = host.removeprefix("*.")
    if host == "*" or (_HOST_GLOB.fullmatch(host) and normalise_host(bare)):
        return ""
    shown = f"`{escape_text(host)}` is no host"
    return f"{shown}; write `example.org`, `*.example.org` or an address, without scheme or port"


def explain_bad_expression(pattern: str) -> str:
    """Return why a regular expression cannot be used, "" when it can."""
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        text = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        shown = f"`{escape_text(pattern)}` is no RE2 pattern ({escape_text(text)})"
        return f"{shown}; RE2 has no lookaround and no backreferences"
    return ""


def explain_bad_phrase(phrase: str) -> str:
    """Return why a phrase cannot be found in a text, "" when it can."""
    return "" if split_phrase(phrase) else f"`{escape_text(phrase)}` holds no word; write words"


_EXPLAIN: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("files.protected", "files.secret", "sensitive.names"), explain_bad_glob),
    "http.hosts": explain_bad_host,
    "sensitive.patterns": explain_bad_expression,
    "commands.open_ended": explain_bad_words,
}
"""Per list of the policy what tells why an entry cannot be used."""
