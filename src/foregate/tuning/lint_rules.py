"""What rules never do: those that others hide or contradict, that cannot match, and that change nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from foregate.policy.policy import Policy, Rule
from foregate.policy.risk.http import is_allowed_host
from foregate.policy.risk.self_running import RUNS_BY_ITSELF
from foregate.policy.source.strict_yaml import Path, escape_text
from foregate.schemas.tool_spec import ResourceKind, ToolSpec
from foregate.tuning.contradictions import UNREAD, find_contradictions
from foregate.tuning.rule_cover import MATCHERS, are_disjoint, can_be_unclear, covers

_STRENGTH = {"allow": 0, "ask": 1, "deny": 2}
_PATHS = (None, ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.REPOSITORY)


def find_rule_remarks(
    policy: Policy, own: Collection[str], tools: Sequence[ToolSpec] = (), others: Collection[str] = ()
) -> Iterator[tuple[Path, str]]:
    """Yield a remark for each rule with an id in `own` that never decides anything, as far as the policy tells.

    `tools` are those of Foregate's own, `others` the names of further tools that are known.
    """
    for rule in policy.rules.list:
        if rule.id not in own:
            continue
        path: Path = ("rules", "list", rule.id)
        never = next(find_contradictions(rule, policy, tools, others), "")
        if never:
            yield path, f"the rule `{rule.id}` never matches: {never}"
        elif why := explain_bad_program(rule):
            unread = "" if rule.then == "allow" else "; as it stands only what nobody can read beforehand may be it"
            yield (*path, "command"), f"the rule `{rule.id}` never matches: {why}{unread}"
        elif why := explain_bad_path(rule):
            yield (*path, "resource"), f"the rule `{rule.id}` never matches a path of the workspace: {why}"
        elif (other := find_stronger(rule, policy)) is not None:
            yield path, _describe_hidden(rule, other)
        elif why := explain_unlisted(rule, policy):
            yield path, why
        elif spares_nothing(rule, policy):
            why = f"the rule `{rule.id}` spares nothing: it says what holds anyway, and the other gates still judge"
            yield path, f"{why}; `stands_for: approval` would make it your yes"
        elif (beside := find_weaker(rule, own, policy, tools, others)) is not None:
            yield path, _describe_usual(rule, beside, policy)


def explain_bad_program(rule: Rule) -> str:
    """Return why a rule's first word cannot be a program's name, "" where it may be one."""
    name = rule.command[0] if rule.command else ""
    if any(map(str.isspace, name)):
        said = escape_text(name)
        return f"no program is called `{said}`; write each word by itself, as in `[{', '.join(said.split())}]`"
    if "/" in name and rule.then != "allow":
        bare = escape_text(name.rpartition("/")[2])
        return f"programs are compared by their bare names, wherever they lie; write `{bare}` for `{escape_text(name)}`"
    return ""


def explain_bad_path(rule: Rule) -> str:
    """Return why a rule's glob is no path as paths are compared, "" where it may be one."""
    glob = rule.resource or ""
    if rule.kind in _PATHS and rule.command is None and glob.startswith("./"):
        return f"paths stand without `./`; write `{escape_text(glob.removeprefix('./'))}`"
    if rule.kind in _PATHS[1:] and "://" in glob:
        return f"`{escape_text(glob)}` is an address, and `kind: {rule.kind}` is none"
    return ""


def find_stronger(rule: Rule, policy: Policy) -> Rule | None:
    """Return a rule that matches whatever this one does and is stronger, or says the same and leaves it no word."""
    rules = list(policy.rules.list)
    for other in rules:
        if other is rule or not covers(other, rule):
            continue
        if _STRENGTH[other.then] > _STRENGTH[rule.then]:
            return other
        if other.then != rule.then or stands_alone(rule, other):
            continue
        is_first = rules.index(other) < rules.index(rule)
        if speaks(rule, other, is_first=is_first):
            continue
        if is_first or not covers(rule, other) or speaks(other, rule, is_first=True):
            return other
    return None


def speaks(rule: Rule, other: Rule, *, is_first: bool) -> bool:
    """Whether a rule's words are given where another says the same; `is_first` tells that the other comes first."""
    explains = RUNS_BY_ITSELF in (rule.protected or ()) and RUNS_BY_ITSELF not in (other.protected or ())
    return rule.then != "allow" and ((bool(rule.message) and not (is_first and other.message)) or explains)


def stands_alone(rule: Rule, other: Rule) -> bool:
    """Whether an allow rule is a yes where another is none, as with more words of a command, or vouches for another
    target."""
    if vouches(rule) and (not vouches(other) or (other.tool, other.resource) != (rule.tool, rule.resource)):
        return True
    return rule.stands_for is not None and (other.stands_for is None or other.command != rule.command)


def vouches(rule: Rule) -> bool:
    """Whether an allow rule names a target that it vouches for, whoever said it."""
    named = rule.resource is not None and rule.resource.strip("*")
    plain = ("tool", "kind", "resource")
    beside = [name for name in MATCHERS if name not in plain and getattr(rule, name) is not None]
    return rule.then == "allow" and rule.tool is not None and bool(named) and not beside


def _describe_hidden(rule: Rule, other: Rule) -> str:
    unread = UNREAD if can_be_unclear(rule, other) else ""
    if other.then == rule.then:
        same = "says the same of the same calls" if covers(rule, other) else "matches whatever it does"
        return f"the rule `{rule.id}` adds nothing: `{other.id}` {same}{unread}"
    if covers(rule, other):
        return f"the rules `{rule.id}` and `{other.id}` contradict each other; `{other.then}` is stronger and holds"
    why = f"`{other.id}` matches whatever it does, and `{other.then}` is stronger"
    return f"the rule `{rule.id}` never decides: {why}{unread}"


def explain_unlisted(rule: Rule, policy: Policy) -> str:
    """Return why a rule about a host never frees or asks: a request there is denied whatever it says."""
    if rule.tool != "http_request" or rule.host is None or rule.then == "deny" or policy.http.unlisted != "deny":
        return ""
    host = rule.host.removeprefix("*.")
    if rule.host in policy.http.hosts or is_allowed_host(f"a.{host}" if rule.host != host else host, policy):
        return ""
    if rule.host == "*" or any(one.endswith(f".{host}") for one in policy.http.hosts):
        return ""
    why = f"`http.hosts` does not list `{escape_text(rule.host)}`, and `http.unlisted` denies what it does not list"
    return f"the rule `{rule.id}` never decides: {why}"


def spares_nothing(rule: Rule, policy: Policy) -> bool:
    """Whether an allow rule changes no ruling: it is no yes, and names no target that it would vouch for."""
    if rule.then != "allow" or rule.stands_for is not None or policy.rules.unmatched != "allow":
        return False
    return not vouches(rule)


def find_weaker(
    rule: Rule, own: Collection[str], policy: Policy, tools: Sequence[ToolSpec], others: Collection[str]
) -> list[str] | None:
    """Return the rules without which a rule would say what holds anyway where none matches; None where it says more.

    It says more where it has words of its own, or where a weaker rule of the user's own may match the same call.
    """
    if rule.then != policy.rules.unmatched or rule.then == "allow" or rule.message:
        return None
    if RUNS_BY_ITSELF in (rule.protected or ()):
        return None
    weaker = [other for other in policy.rules.list if _STRENGTH[other.then] < _STRENGTH[rule.then]]
    open_ = [other for other in weaker if not are_disjoint(rule, other)]
    if rule.tool is None:  # what an allow rule names may be no tool that this one could be about
        beside = {other.id: rule.model_copy(update={"tool": other.tool}) for other in open_ if other.then == "allow"}
        apart = {name for name, both in beside.items() if any(find_contradictions(both, policy, tools, others))}
        open_ = [other for other in open_ if other.id not in apart]
    return None if any(other.id in own for other in open_) else [other.id for other in open_]


def _describe_usual(rule: Rule, beside: Sequence[str], policy: Policy) -> str:
    then, others = policy.rules.unmatched, [other for other in policy.rules.list if other is not rule]
    holds = can_be_unclear(rule) or (then == "deny" and any(map(can_be_unclear, others)))
    read = " where calls can be read" if holds else ""
    if not beside:
        return f"the rule `{rule.id}` adds nothing{read}: `rules.unmatched: {then}` says the same"
    where = ", ".join(f"`{name}`" for name in beside)
    return f"the rule `{rule.id}` adds nothing{read} to `rules.unmatched: {then}` but where {where} would match"
