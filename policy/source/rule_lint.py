"""What rules never do: those that others hide or contradict, that cannot match, and that spare nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from foregate.policy.policy import Policy, Rule
from foregate.policy.risk.globs import matches_text
from foregate.policy.source.strict_yaml import Data, Path, escape_text
from foregate.policy.source.workspace_file import is_host_covered
from foregate.schemas.tool_spec import ResourceKind

_STRENGTH = {"allow": 0, "ask": 1, "deny": 2}
_MATCHERS = tuple(name for name in Rule.model_fields if name not in ("id", "then", "message", "stands_for"))
_EVERYTHING: Mapping[str, Data] = {"tool": "*", "risk_at_least": 0}
"""Per matcher what matches every call."""
_NAMES_HOSTS = (ResourceKind.URL, ResourceKind.HOST)


def find_rule_remarks(policy: Policy) -> Iterator[tuple[Path, str]]:
    """Yield a remark for each rule that never decides anything, as far as the rules themselves tell."""
    for rule in policy.rules.list:
        path: Path = ("rules", "list", rule.id)
        if rule.host is not None and rule.kind is not None and rule.kind not in _NAMES_HOSTS:
            yield (*path, "kind"), f"the rule `{rule.id}` never matches: a {rule.kind.value} has no host"
        elif rule.command and any(map(str.isspace, rule.command[0])):
            said = escape_text(rule.command[0])
            why = f"the rule `{rule.id}` never matches: no program is called `{said}`"
            yield (*path, "command"), f"{why}; write each word by itself, as in `[{', '.join(said.split())}]`"
        elif (other := _find_stronger(rule, policy)) is not None:
            yield path, _describe_hidden(rule, other)
        elif spares_nothing(rule, policy):
            why = f"the rule `{rule.id}` spares nothing: it says what holds anyway, and the other gates still judge"
            yield path, f"{why}; `stands_for: approval` would make it your yes"


def _find_stronger(rule: Rule, policy: Policy) -> Rule | None:
    """Return a rule that matches whatever this one does and is stronger, or says the same more broadly."""
    for other in policy.rules.list:
        if other is rule or not covers(other, rule):
            continue
        if _STRENGTH[other.then] > _STRENGTH[rule.then]:
            return other
        if other.then == rule.then and (other.stands_for or not rule.stands_for) and not covers(rule, other):
            return other
    return None


def _describe_hidden(rule: Rule, other: Rule) -> str:
    if covers(rule, other):
        return f"the rules `{rule.id}` and `{other.id}` contradict each other; `{other.then}` is stronger and holds"
    if other.then == rule.then:
        return f"the rule `{rule.id}` adds nothing: `{other.id}` matches whatever it does"
    return f"the rule `{rule.id}` never decides: `{other.id}` matches whatever it does, and `{other.then}` is stronger"


def spares_nothing(rule: Rule, policy: Policy) -> bool:
    """Whether an allow rule changes no ruling: it is no yes, and names no target that it would vouch for."""
    if rule.then != "allow" or rule.stands_for is not None or policy.rules.unmatched != "allow":
        return False
    vouches = rule.resource is not None and rule.resource.strip("*")
    beside = [name for name in _MATCHERS if name not in ("tool", "resource") and getattr(rule, name) is not None]
    return not vouches or bool(beside)


def covers(wide: Rule, narrow: Rule) -> bool:
    """Whether a rule matches whatever another does; where that is not certain it does not."""
    for name in _MATCHERS:
        wanted, given = getattr(wide, name), getattr(narrow, name)
        if wanted is None or wanted == given or _EVERYTHING.get(name) == wanted:
            continue
        if given is None or not _COVER.get(name, _never)(wanted, given):
            return False
    return True


def _never(wide: Data, narrow: Data) -> bool:
    return False


def _is_glob_wider(wide: str, narrow: str) -> bool:
    return wide.strip("*") == "" or (not set(narrow) & set("*?") and matches_text(wide, narrow))


_COVER: Mapping[str, Callable[[Data, Data], bool]] = {
    "tool": _is_glob_wider,
    "resource": lambda wide, narrow: wide == "**",
    "effect": lambda wide, narrow: set(narrow) <= set(wide),
    "protected": lambda wide, narrow: set(narrow) <= set(wide),
    "capability": lambda wide, narrow: set(wide) <= set(narrow),
    "command": lambda wide, narrow: narrow[: len(wide)] == wide,
    "host": is_host_covered,
    "risk_at_least": lambda wide, narrow: wide <= narrow,
}
"""Per matcher whether one value takes in whatever another does."""
