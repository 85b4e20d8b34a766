"""What in a usable policy does nothing, opens more than it says, or relies on what is turned off."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct, field

from foregate.policy.policy import Policy, Rule
from foregate.policy.risk.http import is_allowed_host
from foregate.policy.risk.self_running import RUNS_BY_ITSELF
from foregate.policy.source.layers import RULES, Layer, Tree, get_rule_id
from foregate.policy.source.load import LoadedPolicy, default_policy, layer_policy
from foregate.policy.source.strict_yaml import Path, escape_text, format_path
from foregate.policy.source.workspace_file import find_leaves
from foregate.schemas.tool_spec import ResourceKind, ToolSpec
from foregate.tuning.contradictions import UNREAD, find_contradictions
from foregate.tuning.lint_settings import Remark, find_idle_thresholds, find_missing_partners, find_open_reads
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
    # What an allow rule names may be no tool that this one could be about.
    if rule.tool is None:
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


_CLASSIFIED = ("run_command", "run_shell")
_SERVER = "mcp:"
"""What stands before the name of a server where all of its tools are meant."""


class Known(Struct, frozen=True):
    """What is known beside a policy file: Foregate's own tools, the names of others, and what its log tells of rules.

    `fired` tells how often each rule of the recorded sessions fired, and in how many `sessions`; `tried` what trying
    further rules on recorded calls came to, a sentence for each that matches none.
    """

    tools: Sequence[ToolSpec] = ()
    others: Collection[str] = ()
    fired: Mapping[str, int] = field(default_factory=dict)
    sessions: int = 0
    tried: Mapping[str, str] = field(default_factory=dict)


def find_remarks(policy: Policy, layer: Layer, known: Known) -> Iterator[Remark]:
    """Yield a remark for whatever a policy says that the default one does not say as well.

    `layer` is the user's file, which tells which rules and keys are their own.
    """
    default = default_policy()
    given = dict(find_leaves(layer.data))
    usual = Tree(default.model_dump(mode="json"))
    changed = {format_path(path) for path, value in given.items() if value != usual.get(path)}
    own = set(list_own_rules(layer))
    said = {*find_missing_partners(default, ()), *find_idle_thresholds(default, ())}
    counts = {"limits.verification_rounds"} & set(map(format_path, given))
    found = (*find_missing_partners(policy, changed | counts), *find_idle_thresholds(policy, changed))
    yield from find_rule_remarks(policy, own, known.tools, known.others)
    yield from (remark for remark in found if remark not in said)
    yield from find_open_reads(policy, default)
    yield from find_open_hosts(policy)
    yield from find_idle_tools(policy)
    yield from find_idle_sources(policy, known)


def list_own_rules(layer: Layer) -> list[str]:
    """Return the ids of the rules that stand in a usable user's layer itself."""
    return list(map(get_rule_id, layer.data.get("rules", {}).get("list", ())))


def find_open_hosts(policy: Policy) -> Iterator[Remark]:
    """Yield hosts that are no list."""
    for number, host in enumerate(policy.http.hosts):
        if host == "*":
            yield ("http", "hosts", number), "`*` is every host, so nothing is unlisted any more"


def find_idle_tools(policy: Policy) -> Iterator[Remark]:
    """Yield what is said of tools that are judged by the words of their commands whatever is said."""
    for name in _CLASSIFIED:
        entry = policy.tools.get(name)
        for key in ("effect", "read_only"):
            if entry is not None and getattr(entry, key) is not None:
                why = "it changes nothing: a command is judged by its words; see `commands.reads` and `rules`"
                yield ("tools", name, key), why


def find_idle_sources(policy: Policy, known: Known) -> Iterator[Remark]:
    """Yield what is said of the results of tools that are not there, as far as the log tells of other tools at all."""
    names = {*(tool.name for tool in known.tools), *known.others, *policy.tools}
    for name in policy.sources if known.others else ():
        if name not in names and not name.startswith(_SERVER):
            shown = escape_text(name)
            why = f"no tool is called `{shown}`, as far as the log knows; all tools of a server are `{_SERVER}NAME`"
            yield ("sources", name), why


def list_layer_remarks(layer: Layer, known: Known | None = None) -> list[tuple[str, int, str]]:
    """Return key, line (0 for none of its own) and sentence for each remark on a usable user's layer, by line."""
    known = known or Known()
    loaded = layer_policy(layer)
    found = list(find_remarks(loaded.policy, layer, known))
    told = {path[: len(RULES) + 1] for path, _ in found}
    found += [remark for remark in _find_idle_rules(layer, known) if remark[0] not in told]
    rows = [(format_path(path), _find_line(loaded, path), said) for path, said in found]
    return sorted(rows, key=lambda row: row[1])


def _find_idle_rules(layer: Layer, known: Known) -> Iterator[Remark]:
    for name in list_own_rules(layer):
        if known.fired.get(name) == 0:
            yield (*RULES, name), f"the rule `{name}` has never fired in the {known.sessions} sessions of the log"
        elif name in known.tried:
            yield (*RULES, name), f"the rule `{name}` {known.tried[name]}"


def _find_line(loaded: LoadedPolicy, path: Path) -> int:
    """Return the line of the user's file that a value comes from, 0 for none."""
    key, inner = format_path(path), f"{format_path(path)}."
    within = (origin for name, origin in loaded.provenance.items() if name == key or name.startswith(inner))
    around = (loaded.provenance.get(format_path(path[:end]), "") for end in range(len(path) - 1, 0, -1))
    lines = (origin.rpartition(":")[2] for origin in (*within, *around))
    return next((int(line) for line in lines if line.isdecimal()), 0)
