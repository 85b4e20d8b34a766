"""What the keys and values of a YAML file may be: read from the typed model behind it, for errors that say what is
allowed, and what types cannot say, such as patterns that compile and rules that can match."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

import re2
from pydantic import BaseModel

from foregate.policy.policy import Policy, Rule
from foregate.policy.risk.access import explain_bad_access
from foregate.policy.risk.globs import compile_glob
from foregate.policy.risk.request import split_phrase
from foregate.policy.source.strict_yaml import Data, Path, escape_text, format_path, name_path
from foregate.schemas.host import normalise_host
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_spec import Capabilities, Effect

_MOST_NAMES = 16
_FEW_NAMES = 8
_NEAREST = 3


class FileKeys:
    """The keys of one kind of file; `whole` is what a sentence calls the whole of it.

    `gone` tells of dotted keys there were once what stands in their place, as the end of a sentence; `others` leads
    from keys that other programs have to ours. `lists` is the command that lists all keys, where there is one.
    """

    def __init__(
        self,
        model: type[BaseModel],
        whole: str,
        gone: Mapping[str, str] | None = None,
        others: Mapping[str, str] | None = None,
        lists: str = "",
    ) -> None:
        self.model = model
        self.whole = whole
        self.gone = gone or {}
        self.others = others or {}
        self.lists = lists

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        return self.model.model_json_schema()

    def find_node(self, path: Path) -> Mapping[str, Any] | None:
        """Return the schema of the value at a path, None where there is no such key."""
        node: Mapping[str, Any] | None = self.resolve_node(self.schema)
        for step in path:
            node = self.find_inner_node(node, step) if node is not None else None
        return node

    def may_be_left_out(self, path: Path) -> bool:
        """Whether a key has no value where it is left out, and no default."""
        fields = (self.find_node(path[:-1]) or {}).get("properties", {}) if path else {}
        return "anyOf" in fields.get(path[-1], {}) if fields else False

    def resolve_node(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a node without references, and without the null beside a value that may be left out.

        Of several kinds that a value may have it is the first, with the others as `besides`.
        """
        while True:
            if "$ref" in node:
                node = self.schema["$defs"][node["$ref"].rpartition("/")[2]]
            elif "anyOf" in node:
                first, *others = (option for option in node["anyOf"] if option.get("type") != "null")
                node = first | {"besides": others} if others else first
            else:
                return node

    def find_inner_node(self, node: Mapping[str, Any], step: str | int) -> Mapping[str, Any] | None:
        if isinstance(step, int):
            places = node.get("prefixItems")
            if places is not None:
                return self.resolve_node(places[step]) if step < len(places) else None
            return self.resolve_node(node["items"]) if "items" in node else None
        properties = node.get("properties", {})
        if step in properties:
            return self.resolve_node(properties[step])
        others = node.get("additionalProperties")
        if not isinstance(others, Mapping):
            return None
        names = self.resolve_node(node.get("propertyNames", {})).get("enum")
        return self.resolve_node(others) if names is None or step in names else None

    def find_unknown_keys(self, data: Data) -> Iterator[tuple[Path, str]]:
        """Yield the path of every unknown key, with a sentence that names the nearest known one."""
        stack: list[tuple[Path, Data]] = [((), data)]
        while stack:
            path, value = stack.pop()
            if isinstance(value, dict):
                for key, within in value.items():
                    here = (*path, key)
                    if self.find_node(here) is not None:
                        stack.append((here, within))
                    elif (node := self.find_node(path)) is not None and node.get("type") == "object":
                        yield here, self.describe_unknown_key(here, node, name_path(here, data), within)
            elif isinstance(value, list):
                stack.extend(((*path, place), within) for place, within in enumerate(value))

    def describe_unknown_key(self, path: Path, node: Mapping[str, Any], shown: str = "", within: Data = None) -> str:
        """Return a sentence about an unknown key in a node; `shown` is how it is written, "" for as it stands.

        `within` is its value: one that wraps keys of the node is to be left out around them.
        """
        if (instead := self.gone.get(format_path(path))) is not None:
            return f"the key `{format_path(path)}` is gone; {instead}"
        names = self.list_names(node)
        other = self.others.get(str(path[-1]))
        near = [other] if other is not None else difflib.get_close_matches(str(path[-1]), names, n=1)
        wrapped = [key for key in within if key in names or key in self.others] if isinstance(within, dict) else []
        if near:
            hint = f"did you mean `{near[0]}`?"
        elif wrapped:
            hint = f"leave it out, and write {join_names(wrapped[:_NEAREST])} one level up"
        else:
            hint = self._describe_others(path, names)
        key = escape_text(shown or format_path(path))
        # A letter may only look like one of the key that is meant.
        if near:
            key = key.encode("unicode_escape").decode()
        return f"the key `{key}` is unknown; {hint}"

    def _describe_others(self, path: Path, names: Sequence[str]) -> str:
        """Return which keys there are instead of one that is like none: the nearest of many, or all of few."""
        where = f"`{escape_text(format_path(path[:-1]))}`" if len(path) > 1 else self.whole
        if not self.lists or len(names) <= _FEW_NAMES:
            return f"the keys of {where} are {join_names(names)}"
        word = str(path[-1])
        known = dict.fromkeys(format_path(one) for one in self.list_paths() if word in map(str, one))
        if known:
            return f"did you mean {join_names([*known][:_NEAREST])}? `{self.lists}` lists all"
        near = difflib.get_close_matches(word, names, n=_NEAREST, cutoff=0)
        return f"the nearest are {join_names(near)}; `{self.lists}` lists all"

    def list_paths(self, path: Path = ()) -> Iterator[Path]:
        """Yield the path of every key that has a fixed name, outer ones first."""
        for name in (self.find_node(path) or {}).get("properties", {}):
            yield (*path, name)
            yield from self.list_paths((*path, name))

    def list_names(self, node: Mapping[str, Any]) -> list[str]:
        return list(node.get("properties") or self.resolve_node(node.get("propertyNames", {})).get("enum") or ())

    def describe_allowed_at(self, path: Path) -> str:
        """Return what is allowed at a path, as the end of a sentence."""
        node = self.find_node(path)
        return self.describe_allowed(node) if node is not None else "nothing here"

    def describe_allowed(self, node: Mapping[str, Any]) -> str:
        """Return what a node of the schema allows, in words."""
        if others := node.get("besides"):
            first = {key: value for key, value in node.items() if key != "besides"}
            return ", or ".join((self.describe_allowed(first), *(f"`{one['const']}`" for one in others)))
        match node:
            case {"enum": names}:
                return f"one of {join_names(names)}"
            case {"const": only}:
                return f"only {only}"
            case {"type": "integer"}:
                return describe_whole_number(node.get("minimum"), node.get("maximum"))
            case {"type": "number", "minimum": least, "maximum": most}:
                return f"a number from {least} to {most}"
            case {"type": "boolean"}:
                return "true or false"
            case {"type": "string"}:
                return f"text that fits {node['pattern']}" if "pattern" in node else "text"
            case {"type": "array", "prefixItems": places}:
                return f"a list of {len(places)} values"
            case {"type": "array"}:
                return f"a list, each entry {self.describe_allowed(self.resolve_node(node['items']))}"
        names = self.list_names(node)
        return f"a mapping with the keys {join_names(names)}" if names else "a mapping"


def describe_whole_number(least: int | None, most: int | None) -> str:
    if least is not None and most is not None:
        return f"a whole number from {least} to {most}"
    return f"a whole number, {least} or more" if least is not None else "a whole number"


def join_names(names: Sequence[str]) -> str:
    cut = [f"`{name}`" for name in names[:_MOST_NAMES]]
    return ", ".join(cut) + (", ..." if len(names) > _MOST_NAMES else "")


POLICY = FileKeys(Policy, "a policy", lists="foregate policy show --effective")
"""The keys of a policy file."""


PROTECTIONS = ("outside_workspace", "git_internal", "foregate", "secret", "runs_by_itself")
"""Why a resource may be protected, as the survey says it."""

FLAGS = tuple(Capabilities.__struct_fields__)
# "*", "*.example.org": a star stands for whole names in front, and nowhere else.
_HOST_GLOB = compile_late(r"\*|(\*\.)?[^*]+")
# "[ab]", "{a,b}": other programs' globs, in which these mean a choice, and ours have none.
_BRACKETS = compile_late(r"\[[^\[\]]+\]|\{[^{}]+\}")
_MATCHERS = tuple(name for name in Rule.model_fields if name not in ("id", "then", "message", "stands_for"))


def find_defects(policy: Policy, sound: Policy | None = None) -> Iterator[tuple[Path, str]]:
    """Yield the path and a sentence for everything in a well-typed policy that could never work.

    Rules and sections that are as in a `sound` policy are not looked at.
    """
    known = set(sound.rules.list) if sound is not None else ()
    changed = [name for name in Policy.model_fields if sound is None or getattr(policy, name) != getattr(sound, name)]
    for number, rule in enumerate(policy.rules.list):
        for key, sentence in find_rule_defects(rule) if rule not in known else ():
            yield ("rules", "list", number, *key), f"the rule `{rule.id}` {sentence}"
    of_phrases = {f"contract.{name}": explain_bad_phrase for name in type(policy.contract).model_fields}
    of_phrases |= {f"mandate.{name}": explain_bad_phrase for name in ("polite", "lead_ins")}
    of_phrases |= {f"mandate.phrases.{name}": explain_bad_phrase for name in type(policy.mandate.phrases).model_fields}
    of_phrases |= {f"postlude.claims.{name}": explain_bad_phrase for name in type(policy.postlude.claims).model_fields}
    of_phrases["postlude.promises"] = explain_bad_phrase
    for name, explain in (_EXPLAIN | of_phrases).items():
        for number, value in enumerate(attrgetter(name)(policy) if name.split(".")[0] in changed else ()):
            if why := explain(value):
                yield (*name.split("."), number), why
    for effect, listed in policy.mandate.effects.items() if "mandate" in changed else ():
        for number, phrase in enumerate(listed):
            if why := explain_bad_phrase(phrase):
                yield ("mandate", "effects", effect.value, number), why
    yield from find_command_defects(policy) if "commands" in changed else ()
    for path, _, glob in find_self_running_globs(policy) if "files" in changed else ():
        if why := explain_bad_glob(glob):
            yield path, why
    for name, pattern in policy.sensitive.formats.items() if "sensitive" in changed else ():
        if why := explain_bad_secret(pattern):
            yield ("sensitive", "formats", name), why
    missing = [effect.value for effect in Effect if effect not in policy.scores.risk.effect]
    if missing:
        yield ("scores", "risk", "effect"), f"a weight is missing for {', '.join(missing)}; give each effect one"


def find_command_defects(policy: Policy) -> Iterator[tuple[Path, str]]:
    commands = policy.commands
    for key in ("read_only", "reads", "access", "code"):
        for leading in getattr(commands, key):
            if not leading.strip() or "/" in leading.split()[0]:
                yield ("commands", key, leading), "a program is listed by its bare name, without a path"
    for leading, entry in commands.reads.items():
        for number, pattern in enumerate(entry.patterns):
            if why := explain_bad_expression(pattern):
                yield ("commands", "reads", leading, "patterns", number), why
    for leading, starts in commands.code.items():
        for number, pattern in enumerate(starts):
            if why := explain_bad_expression(pattern):
                yield ("commands", "code", leading, number), why
    for leading, wanted in commands.access.items():
        for number, one in enumerate(wanted):
            if why := explain_bad_access(one):
                yield ("commands", "access", leading, number), why


def find_rule_defects(rule: Rule) -> Iterator[tuple[Path, str]]:
    given = [name for name in _MATCHERS if getattr(rule, name) is not None]
    if not given:
        yield (), 'matches nothing in particular; give it a matcher (`tool: "*"` is every call)'
    if rule.stands_for is not None and rule.then != "allow":
        yield ("stands_for",), "stands for a yes and does not allow; `stands_for` goes with `then: allow`"
    elif rule.stands_for is not None and not (rule.command or (rule.tool or "").strip("*?")):
        yield ("stands_for",), "stands for a yes to whatever is called; name a `tool` or a `command` it is for"
    for name in given:
        value = getattr(rule, name)
        if isinstance(value, tuple) and not value:
            yield (name,), f"has an empty `{name}`, which matches nothing; name something or leave it out"
    for name, explain in (("tool", explain_bad_glob), ("resource", explain_bad_glob), ("host", explain_bad_host)):
        if (said := getattr(rule, name)) is not None and (why := explain(said)):
            yield (name,), f"has an unusable `{name}`: {why}"
    for name, known in (("protected", PROTECTIONS), ("capability", FLAGS)):
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
    yield from find_self_running_globs(policy)


def find_self_running_globs(policy: Policy) -> Iterator[tuple[Path, str, str]]:
    """Yield path, key as shown, and text of every glob of files that run by themselves."""
    for number, entry in enumerate(policy.files.runs_by_itself):
        for place, glob in enumerate(entry.paths):
            path = ("files", "runs_by_itself", number, "paths", place)
            yield path, format_path(path), glob


def explain_bad_glob(glob: str) -> str:
    if not glob:
        return "an empty pattern matches nothing; write a path or a glob such as `logs/**`"
    try:
        compile_glob(glob)
    except ValueError as error:
        return str(error)
    return ""


def explain_bad_words(entry: str) -> str:
    words = entry.split()
    if not words or words[0].startswith("-") or words[0] == "...":
        return f"`{escape_text(entry)}` names no program; write it first, as in `env ...`"
    if "..." in words[:-1]:
        return f"`{escape_text(entry)}` goes on behind `...`, which says that no further word matters; put it last"
    return next((why for word in words if (why := explain_bad_glob(word))), "")


def explain_bad_host(host: str) -> str:
    bare = host.removeprefix("*.")
    if host == "*" or (_HOST_GLOB.fullmatch(host) and normalise_host(bare)):
        return ""
    shown = f"`{escape_text(host)}` is no host"
    return f"{shown}; write `example.org`, `*.example.org` or an address, without scheme or port"


def explain_bad_expression(pattern: str) -> str:
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


def explain_bad_secret(pattern: str) -> str:
    if why := explain_bad_expression(pattern):
        return why
    if re2.search(pattern, "") is not None:
        return f"`{escape_text(pattern)}` also matches nothing at all; write what a secret must hold"
    return ""


def explain_bad_phrase(phrase: str) -> str:
    return "" if split_phrase(phrase) else f"`{escape_text(phrase)}` holds no word; write words"


_EXPLAIN: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(
        ("files.protected", "files.secret", "sensitive.names", "sensitive.values.besides"), explain_bad_glob
    ),
    "http.hosts": explain_bad_host,
    "sensitive.patterns": explain_bad_secret,
    "commands.open_ended": explain_bad_words,
}
"""Per list of the policy what tells why an entry cannot be used."""
