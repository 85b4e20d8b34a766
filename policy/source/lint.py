"""What in a usable policy does nothing, opens more than it says, or relies on what is turned off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from foregate.policy.policy import Policy
from foregate.policy.risk.facts import combine_reasons
from foregate.policy.risk.globs import matches_text
from foregate.policy.source.layers import RULES, Layer, get_rule_id
from foregate.policy.source.load import LoadedPolicy, default_policy, layer_policy
from foregate.policy.source.rule_lint import find_rule_remarks
from foregate.policy.source.strict_yaml import Path, escape_text, format_path
from foregate.schemas.tool_call import Reason

Remark = tuple[Path, str]
"""The path of what is remarked on, and a sentence."""
_CLASSIFIED = ("run_command", "run_shell")


def find_remarks(policy: Policy, default: Policy) -> Iterator[Remark]:
    """Yield a remark for whatever a policy says that `default` does not say as well."""
    said = set(_find_all(default))
    yield from (remark for remark in _find_all(policy) if remark not in said)
    yield from find_widened_reads(policy, default)


def _find_all(policy: Policy) -> Iterator[Remark]:
    yield from find_rule_remarks(policy)
    yield from find_unreachable_scores(policy)
    yield from find_missing_partners(policy)
    yield from find_open_reads(policy)
    yield from find_idle_tools(policy)


def find_unreachable_scores(policy: Policy) -> Iterator[Remark]:
    """Yield thresholds that no score reaches, and those that every score does."""
    risk, uncertainty = compute_most_risk(policy), compute_most_uncertainty(policy)
    bounds = (
        (("uncertainty", "threshold"), "uncertainty", uncertainty, policy.uncertainty.threshold),
        (("critique", "risk"), "risk", risk, policy.critique.risk),
        (("critique", "uncertainty"), "uncertainty", uncertainty, policy.critique.uncertainty),
        (("critique", "risk_in_doubt"), "risk", risk, policy.critique.risk_in_doubt or risk),
    )
    for path, name, most, bound in bounds:
        if bound > most:
            yield path, f"no {name} reaches {bound}: all weights of `scores.{name}` together make {most}"
        elif bound == 0:
            yield path, f"each {name} reaches 0, so it is as if there were no bound"
    for rule in policy.rules.list:
        if rule.risk_at_least is not None and rule.risk_at_least > risk:
            why = f"the rule `{rule.id}` never matches: no risk reaches {rule.risk_at_least}, the most is {risk}"
            yield ("rules", "list", rule.id, "risk_at_least"), why


def compute_most_risk(policy: Policy) -> int:
    """Return the most that a risk can be, in thousandths."""
    weights = policy.scores.risk.model_dump(mode="json")
    effects = weights.pop("effect")
    return _combine({"effect": max(effects.values(), default=0), "deletes": effects.get("delete", 0), **weights})


def compute_most_uncertainty(policy: Policy) -> int:
    """Return the most that an uncertainty can be, in thousandths."""
    return _combine(policy.scores.uncertainty.model_dump(mode="json"))


def _combine(weights: Mapping[str, int]) -> int:
    return combine_reasons(Reason(name, weight, "") for name, weight in weights.items()).value


def find_missing_partners(policy: Policy) -> Iterator[Remark]:
    """Yield gates and lists that are turned off, and something else relies on."""
    plan, critique, rules = policy.plan, policy.critique, policy.rules
    if rules.mode != "enforce" and any(rule.then != "allow" for rule in rules.list):
        yield ("rules", "mode"), f"the gate is `{rules.mode}`, so no rule denies or asks, those for secrets neither"
    if critique.level == "plan" and critique.mode != "off" and plan.mode == "off":
        yield ("critique", "level"), "`plan` reviews plans, and the gate `plan` is off: the critic is never asked"
    if plan.mode == "off" and policy.approval.mode == "scope":
        yield ("plan", "mode"), "without plans `approval.mode: scope` has no scope: each dangerous call asks by itself"
    if policy.mandate.mode == "off" and plan.form == "blind" and plan.mode != "off":
        yield ("mandate", "mode"), "`plan.form: blind` takes a mandate: plans are made as with `call`"
    if policy.approval.mode == "never":
        yield ("approval", "mode"), "nobody is asked, so whatever asks is denied, also what `rules` ask about"
    if policy.evidence.mode != "enforce" and policy.approval.mode != "each":
        yield ("evidence", "mode"), "a file may be changed that nobody has read, and nobody is asked about it"
    if not policy.sensitive.values.named and any(rule.secrets for rule in rules.list):
        yield ("sensitive", "values", "named"), "0 turns the search for values off that rules with `secrets` rely on"
    for name in ("secret", "runs_by_itself"):
        listed = [rule.id for rule in rules.list if name in (rule.protected or ())]
        if listed and not getattr(policy.files, name):
            yield ("files", name), f"it is empty, so the rule `{listed[0]}` never matches"


def find_open_reads(policy: Policy) -> Iterator[Remark]:
    """Yield what is said only to observe and could do anything, and hosts that are no list."""
    commands = policy.commands
    changing = {name: [f"{one} ..." for one in getattr(commands, name)] for name in ("wrappers", "deletes", "installs")}
    changing = {"open_ended": list(commands.open_ended), **changing}
    words = {
        "open_ended": "may go on to run anything",
        "wrappers": "runs other programs",
        "deletes": "deletes",
        "installs": "installs",
    }
    for leading, entry in commands.read_only.items():
        found = next((name for name, listed in changing.items() if any(_begins(one, leading) for one in listed)), "")
        if found and (entry.operands or entry.options):
            why = f"`{escape_text(leading)}` {words[found]} (`commands.{found}`), and here it counts as a read"
            yield ("commands", "read_only", leading), f"{why}; list its reading subcommands, or leave it out"
        elif not found and not any(_begins(f"{one} ...", leading) for one in commands.reads):
            why = f"that `{escape_text(leading)}` changes nothing is on your word alone: `commands.reads` has no such"
            yield ("commands", "read_only", leading), f"{why} command, and where nothing holds it, it runs unasked"
    for number, host in enumerate(policy.http.hosts):
        if host == "*":
            yield ("http", "hosts", number), "`*` is every host, so nothing is unlisted any more"


def find_widened_reads(policy: Policy, default: Policy) -> Iterator[Remark]:
    """Yield commands that only read as `default` lists them, and here do with options that it does not list."""
    for leading, entry in policy.commands.read_only.items():
        usual = default.commands.read_only.get(leading)
        known = {*usual.options, *usual.valued} if usual else ()
        if usual and (further := [one for one in (*entry.options, *entry.valued) if one not in known]):
            named = escape_text(" ".join([leading, *further]))
            path = ("commands", "read_only", leading)
            yield path, f"that `{named}` changes nothing is on your word alone: the default policy lists no such option"


def _begins(listed: str, leading: str) -> bool:
    """Whether a command's plain words are those of an entry, or go on from those of one that ends in `...`."""
    entry, words = ([word for word in said.split() if not word.startswith("-")] for said in (listed, leading))
    whole = entry[-1:] != ["..."]
    entry = entry if whole else entry[:-1]
    fits = all(matches_text(glob, word) for glob, word in zip(entry, words, strict=False))
    return fits and (len(entry) == len(words) if whole else len(entry) <= len(words))


def find_idle_tools(policy: Policy) -> Iterator[Remark]:
    """Yield what is said of tools that are judged by the words of their commands whatever is said."""
    for name in _CLASSIFIED:
        entry = policy.tools.get(name)
        for key in ("effect", "read_only"):
            if entry is not None and getattr(entry, key) is not None:
                why = "it changes nothing: a command is judged by its words; see `commands.reads` and `rules`"
                yield ("tools", name, key), why


def list_layer_remarks(layer: Layer, fired: tuple[Mapping[str, int], int] = ({}, 0)) -> list[tuple[str, int, str]]:
    """Return key, line (0 for none of its own) and sentence for each remark on a usable user's layer, by line.

    `fired` tells how often each rule of the recorded sessions fired, and in how many sessions.
    """
    loaded = layer_policy(layer)
    found = list(find_remarks(loaded.policy, default_policy()))
    told = {path[: len(RULES) + 1] for path, _ in found}
    found += [remark for remark in _find_idle_rules(layer, *fired) if remark[0] not in told]
    rows = [(format_path(path), _find_line(loaded, path), said) for path, said in found]
    return sorted(rows, key=lambda row: row[1])


def _find_idle_rules(layer: Layer, fired: Mapping[str, int], sessions: int) -> Iterator[Remark]:
    listed = layer.data.get("rules", {}).get("list", ())
    for name in map(get_rule_id, listed):
        if fired.get(name) == 0:
            yield (*RULES, name), f"the rule `{name}` has never fired in the {sessions} sessions of the log"


def _find_line(loaded: LoadedPolicy, path: Path) -> int:
    """Return the line of the user's file that a value comes from, 0 for none."""
    key, inner = format_path(path), f"{format_path(path)}."
    within = (origin for name, origin in loaded.provenance.items() if name == key or name.startswith(inner))
    around = (loaded.provenance.get(format_path(path[:end]), "") for end in range(len(path) - 1, 0, -1))
    lines = (origin.rpartition(":")[2] for origin in (*within, *around))
    return next((int(line) for line in lines if line.isdecimal()), 0)
