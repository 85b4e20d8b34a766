"""Thresholds that tell nothing apart, and gates and lists that are off and that something else relies on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from foregate.policy.commands_section import CommandEntry, Commands
from foregate.policy.policy import Policy
from foregate.policy.risk.facts import combine_reasons
from foregate.policy.risk.globs import matches_text
from foregate.policy.source.strict_yaml import Path, escape_text
from foregate.schemas.tool_call import Reason
from foregate.schemas.tool_spec import Effect

Remark = tuple[Path, str]
"""The path of what is remarked on, and a sentence."""
_PAGERS = ("less", "more", "most", "zless", "zmore", "bzless", "xzless", "bat", "batcat", "pg")
_STARTS = {
    **dict.fromkeys(_PAGERS, "starts programs by what is typed there or stands behind a `+`"),
    "ldd": "may start the program it is given",
}
"""What programs start that only show something; `commands.reads` has them, as a sandbox holds what they start."""
_DOES = {
    "open_ended": "may go on to run anything",
    "wrappers": "runs other programs",
    "deletes": "deletes",
    "installs": "installs",
}
"""Per list of `commands`, what its entries do that is no reading."""
_YOUR_WORD = "on your word alone"
_UNASKED = "and where nothing holds it, it runs unasked"


def compute_most_risk(policy: Policy, effects: Collection[Effect] = tuple(Effect)) -> int:
    """Return the most that the risk of a call with one of these effects can be, in thousandths."""
    weights = policy.scores.risk.model_dump(mode="json")
    of_effects = weights.pop("effect")
    most = max((of_effects.get(effect.value, 0) for effect in effects), default=0)
    if not any(effect.changes for effect in effects):
        return _combine({"effect": most, "protected": weights["protected"]})
    return _combine({"effect": most, "deletes": of_effects.get("delete", 0), **weights})


def compute_least_risk(policy: Policy) -> int:
    """Return the least that the risk of a change can be, in thousandths."""
    return min((weight for effect, weight in policy.scores.risk.effect.items() if effect.changes), default=0)


def compute_most_uncertainty(policy: Policy) -> int:
    """Return the most that an uncertainty can be, in thousandths."""
    return _combine(policy.scores.uncertainty.model_dump(mode="json"))


def _combine(weights: Mapping[str, int]) -> int:
    return combine_reasons(Reason(name, weight, "") for name, weight in weights.items()).value


def find_idle_thresholds(policy: Policy, given: Collection[str]) -> Iterator[Remark]:
    """Yield thresholds that tell nothing apart; `given` are the dotted keys that the user's own file sets otherwise."""
    yield from _find_unreachable_scores(policy)
    yield from _find_rule_bounds(policy)
    yield from _find_unread(policy, given)
    yield from _find_overtaken(policy, given)
    if policy.narration.mode != "off" and policy.narration.min_chars == 0:
        yield ("narration", "min_chars"), "no words are fewer than 0, so the gate never holds"
    if policy.scope.max_resources == 0:
        yield ("scope", "max_resources"), "each change that names anything names more than 0, so each is broad"


def _find_unreachable_scores(policy: Policy) -> Iterator[Remark]:
    risk, uncertainty, least = compute_most_risk(policy), compute_most_uncertainty(policy), compute_least_risk(policy)
    bounds = (
        (("uncertainty", "threshold"), "uncertainty", (0, uncertainty), policy.uncertainty.threshold),
        (("critique", "risk"), "risk", (least, risk), policy.critique.risk),
        (("critique", "uncertainty"), "uncertainty", (0, uncertainty), policy.critique.uncertainty),
        (("critique", "risk_in_doubt"), "risk", (least, risk), policy.critique.risk_in_doubt),
    )
    for path, name, (fewest, most), bound in bounds:
        if path[1] == "risk_in_doubt" and not bound:
            # That means never.
            continue
        if bound > most:
            yield path, f"no {name} reaches {bound}: all weights of `scores.{name}` together make {most}"
        elif bound <= fewest:
            whose = "change's risk" if name == "risk" else name
            yield path, f"each {name if not bound else whose} reaches {bound}, so it is as if there were no bound"


def _find_rule_bounds(policy: Policy) -> Iterator[Remark]:
    risk = compute_most_risk(policy)
    for rule in policy.rules.list:
        path = ("rules", "list", rule.id, "risk_at_least")
        if rule.risk_at_least is not None and rule.risk_at_least > risk:
            why = f"the rule `{rule.id}` never matches: no risk reaches {rule.risk_at_least}, the most is {risk}"
            yield path, why
        elif rule.risk_at_least == 0:
            yield path, f"each risk reaches 0, so the rule `{rule.id}` is the same without it"


def _find_unread(policy: Policy, given: Collection[str]) -> Iterator[Remark]:
    """Yield bounds that nothing compares with as other keys stand."""
    level, critique = policy.critique.level, policy.critique
    if "critique.risk" in given and critique.mode != "off" and level in ("doubt", "off"):
        other = "; there it is `critique.risk_in_doubt`" if level == "doubt" else ""
        yield ("critique", "risk"), f"with `critique.level: {level}` nothing is compared with it{other}"
    if "critique.risk_in_doubt" in given and critique.mode != "off" and level in ("plan", "off"):
        other = "; there it is `critique.risk`" if level == "plan" else ""
        yield ("critique", "risk_in_doubt"), f"with `critique.level: {level}` nothing is compared with it{other}"
    if "critique.uncertainty" in given and critique.mode != "off" and level == "off":
        yield ("critique", "uncertainty"), "with `critique.level: off` nothing is compared with it"
    if "drift.max_holds" in given and policy.drift.mode != "off" and policy.drift.lasts == "task":
        yield ("drift", "max_holds"), "with `drift.lasts: task` nothing is compared with it"


def _find_overtaken(policy: Policy, given: Collection[str]) -> Iterator[Remark]:
    """Yield limits that another one always comes before."""
    limits, safety = policy.limits, policy.safety
    if "limits.turns" in given and 0 < limits.model_calls < limits.turns:
        why = f"no task comes to {limits.turns} turns: `limits.model_calls` ends it at {limits.model_calls}"
        yield ("limits", "turns"), why
    if "safety.rounds" in given and 0 < safety.model_calls < safety.rounds:
        why = f"no task comes to {safety.rounds} critiques: `safety.model_calls` ends them at {safety.model_calls}"
        yield ("safety", "rounds"), why
    if "limits.futile_turns" in given and 0 < limits.turns < limits.futile_turns:
        yield ("limits", "futile_turns"), f"no task comes to it: `limits.turns` ends it at {limits.turns}"


_OF_LIST = {"protected": ("git_internal", "foregate"), "secret": ("secret",), "runs_by_itself": ("runs_by_itself",)}
"""Per list of `files`, what a resource is that is protected by it."""


def find_missing_partners(policy: Policy, given: Collection[str]) -> Iterator[Remark]:
    """Yield what is off and relied on; `given` are the dotted keys that the user's own file sets otherwise."""
    yield from _find_plan_partners(policy, given)
    yield from _find_critique_partners(policy, given)
    yield from _find_mandate_partners(policy)
    yield from _find_person_partners(policy)
    yield from _find_list_partners(policy)
    if (
        policy.postlude.mode == "off"
        and "limits.verification_rounds" in given
        and policy.limits.verification_rounds != 1
    ):
        yield (
            ("postlude", "mode"),
            "no answer is checked, so `limits.verification_rounds` has no rounds to count",
        )


def _find_plan_partners(policy: Policy, given: Collection[str]) -> Iterator[Remark]:
    plan, mode = policy.plan, policy.plan.mode
    if mode == "enforce":
        unread = [name for name in ("due", "depth") if f"plan.{name}" in given and policy.plans_blind]
        for name in unread:
            yield ("plan", name), "with `plan.form: blind` nothing reads it; it is about `call` alone"
        return
    if policy.critique.level == "plan" and policy.critique.mode != "off":
        yield ("critique", "level"), f"`plan` reviews plans, and the gate `plan` is {mode}: the critic is never asked"
    if policy.approval.mode == "scope":
        why = "without plans in force `approval.mode: scope` has no scope: each dangerous call asks by itself"
        yield ("plan", "mode"), why
    if mode == "shadow" and not plan.shadow_asks:
        why = "in shadow no planner is asked (`plan.shadow_asks`), so it tells only which calls would need a plan"
        yield ("plan", "mode"), why


def _find_critique_partners(policy: Policy, given: Collection[str]) -> Iterator[Remark]:
    critique, safety = policy.critique, policy.safety
    if critique.mode == "shadow" and critique.level != "off" and not critique.shadow_asks:
        why = "in shadow no critic is asked (`critique.shadow_asks`), so it tells only which calls would go to one"
        yield ("critique", "mode"), why
    if critique.mode != "enforce" and critique.level in ("doubt", "call") and policy.mandate.mode != "off":
        why = "nobody looks twice at what `mandate` leaves in doubt, as what only text from outside names"
        yield ("critique", "mode"), why
    is_silent = critique.mode == "off" or critique.level == "off"
    if critique.mode == "off" and "critique.level" in given and critique.level != "off":
        yield ("critique", "mode"), f"the gate is `off`, so `critique.level: {critique.level}` asks no critic"
    if is_silent and "safety.rounds" in given:
        yield ("safety", "rounds"), "no critic is ever asked, so there are no critiques to count"
    if "critique.on_budget_exhausted" in given and not (safety.model_calls or safety.rounds):
        yield ("critique", "on_budget_exhausted"), "`safety` sets no budget, so it is never used up"


def _find_mandate_partners(policy: Policy) -> Iterator[Remark]:
    mandate, plan, critique = policy.mandate, policy.plan, policy.critique
    if mandate.mode == "off" and plan.form == "blind" and plan.mode != "off":
        yield ("mandate", "mode"), "`plan.form: blind` takes a mandate: plans are made as with `call`"
    if mandate.mode == "off" and critique.level == "doubt" and critique.mode != "off":
        why = "`critique.level: doubt` is about what the person's words do not carry, and `mandate` is what reads them"
        yield ("mandate", "mode"), why
    if "losses" in mandate.naming and policy.uncertainty.mode != "enforce":
        why = f"the gate is `{policy.uncertainty.mode}`, so it asks about nothing that a command takes away"
        yield ("uncertainty", "mode"), f"{why}, and `mandate.naming` (`losses`) wants no name where no other gate asks"
    asking = [rule for rule in policy.rules.list if rule.then == "ask" and rule.secrets is not False]
    if "secrets" in mandate.naming and not any(rule.secrets for rule in asking):
        why = "no rule asks about `secrets`, so `secrets` wants a name only where something else asks"
        yield ("mandate", "naming"), why


def _find_person_partners(policy: Policy) -> Iterator[Remark]:
    rules, evidence = policy.rules, policy.evidence
    if rules.mode != "enforce" and any(rule.then != "allow" for rule in rules.list):
        yield ("rules", "mode"), f"the gate is `{rules.mode}`, so no rule denies or asks, those for secrets neither"
    if policy.approval.mode == "never":
        yield ("approval", "mode"), "nobody is asked, so whatever asks is denied, also what `rules` ask about"
    if evidence.mode != "enforce" and policy.approval.mode != "each":
        yield ("evidence", "mode"), "a file may be changed that nobody has read, and nobody is asked about it"
    elif evidence.mode == "enforce" and not evidence.requirements:
        yield ("evidence", "requirements"), "it is empty, so a file may be changed that nobody has read"


def _find_list_partners(policy: Policy) -> Iterator[Remark]:
    rules = policy.rules.list
    if not policy.sensitive.values.named and any(rule.secrets for rule in rules):
        yield ("sensitive", "values", "named"), "0 turns the search for values off that rules with `secrets` rely on"
    for name, reasons in _OF_LIST.items():
        relying = next((rule for rule in rules if set(rule.protected or ()) & {*reasons}), None)
        if relying is not None and not getattr(policy.files, name):
            never = "never matches" if set(relying.protected or ()) <= {*reasons} else "matches less than it says"
            never = "guards only what Foregate adds when it starts" if name == "protected" else never
            yield ("files", name), f"it is empty, so the rule `{relying.id}` {never}"
    if policy.drift.mode != "off" and policy.drift.trigger == "contract" and not policy.contract.text_only:
        yield ("contract", "text_only"), "it is empty, so with `drift.trigger: contract` the gate `drift` never holds"


def find_open_reads(policy: Policy, default: Policy) -> Iterator[Remark]:
    """Yield each entry of `commands.read_only` by which something other than a read may run.

    What `default` lists is known to read only.
    """
    usual = default.commands.read_only
    for program, entry in policy.commands.read_only.items():
        if entry == usual.get(program):
            continue
        path = ("commands", "read_only", program)
        if len(program.split()) > 1:
            first, *rest = program.split()
            why = f"no program is called `{escape_text(program)}`, so it lists nothing"
            yield path, f"{why}; write `{escape_text(first)}: {{subcommands: [{escape_text(rest[0])}], options: []}}`"
        elif program in usual:
            yield from ((path, why) for why in _find_widened(program, entry, usual[program], policy.commands))
        else:
            found = (_explain_words(words, entry, policy.commands) for words in _list_commands(program, entry))
            yield from ((path, why) for why in found if why)


def _find_widened(program: str, entry: CommandEntry, usual: CommandEntry, commands: Commands) -> Iterator[str]:
    """Yield what an entry lets through beyond the usual one of that program."""
    further = [one for one in (*entry.options, *entry.valued) if one not in (*usual.options, *usual.valued)]
    name, reads = escape_text(program), program in commands.reads and not _find_list(program, commands)
    if work := [one for one in further if reads and _is_work(one, program, commands)]:
        yield _describe_work(name, work)
    if further and not reads:
        why = f"that `{name} {escape_text(' '.join(further))}` changes nothing is {_YOUR_WORD}"
        yield f"{why}: the default policy lists no such option"
    if entry.operands and not usual.operands:
        yield f"that `{name}` changes nothing whatever words it is given is {_YOUR_WORD}; say `operands: false`"
    beneath = [one for one in entry.options if _reads_beneath(one, usual) and one not in entry.beneath]
    if beneath:
        shown = escape_text(" ".join(beneath))
        yield f"`{name} {shown}` reads what is in folders, secrets too: list it in `beneath` as well"


def _describe_work(name: str, work: Sequence[str]) -> str:
    shown = escape_text(" ".join(work))
    return f"`{name} {shown}` changes something (`commands.reads`), and here it counts as a read"


def _reads_beneath(option: str, usual: CommandEntry) -> bool:
    """Whether an option lets a program read what is in folders, itself or among other letters."""
    letters = {one[1:].lower() for one in usual.beneath if len(one) == 2}
    if option.startswith("--"):
        return bool(usual.beneath) and "recursive" in option
    return any(letter in letters for letter in option[1:].lower())


def _list_commands(program: str, entry: CommandEntry) -> list[str]:
    """Return the leading words of the commands that an entry is about."""
    return [f"{program} {word}" for word in entry.subcommands] or [program]


def _explain_words(leading: str, entry: CommandEntry, commands: Commands) -> str:
    """Return why a command with these leading words may do more than read, "" where nothing tells so."""
    name = escape_text(leading)
    options = [*entry.options, *entry.valued]
    if (listed := _find_list(leading, commands)) and (entry.operands or options):
        advice = "leave it out" if " " in leading else "list its reading subcommands, or leave it out"
        return f"`{name}` {_DOES[listed]} (`commands.{listed}`), and here it counts as a read; {advice}"
    # Else what follows would be the subcommand.
    given = entry.valued if entry.subcommands else options
    if ran := [one for one in given if _is_run(one, leading, commands)]:
        return f"`{name} {escape_text(ran[0])}` runs what it is given (`commands.code`), and here it counts as a read"
    if leading in _STARTS:
        return f"`{name}` {_STARTS[leading]}, and here it counts as a read; leave it out"
    reads = commands.reads.get(leading)
    if reads is None:
        why = f"that `{name}` changes nothing is {_YOUR_WORD}: `commands.reads` has no such command, {_UNASKED}"
        wants = any(_begins(f"{one} ...", leading) for one in commands.access)
        return f"{why}; it reaches beyond this machine, too (`commands.access`)" if wants else why
    if work := [one for one in options if _is_work(one, leading, commands)]:
        return _describe_work(name, work)
    if entry.operands and reads.operands is not None:
        most = f"more operands than {reads.operands}" if reads.operands else "operands"
        return f"`{name}` with {most} changes something (`commands.reads`), and here it counts as a read"
    if entry.operands and reads.patterns:
        return f"`{name}` may change something by its words (`commands.reads`), and here it counts as a read"
    return ""


def _find_list(leading: str, commands: Commands) -> str:
    """Return the list of `commands` that tells of leading words that they are no mere reading, "" for none."""
    listed: dict[str, Sequence[str]] = {"open_ended": commands.open_ended}
    listed |= {name: [f"{one} ..." for one in getattr(commands, name)] for name in ("wrappers", "deletes", "installs")}
    return next((name for name, entries in listed.items() if any(_begins(one, leading) for one in entries)), "")


def _begins(listed: str, leading: str) -> bool:
    """Whether a command's plain words are those of an entry, or go on from those of one that ends in `...`."""
    entry, words = ([word for word in said.split() if not word.startswith("-")] for said in (listed, leading))
    whole = entry[-1:] != ["..."]
    entry = entry if whole else entry[:-1]
    fits = all(matches_text(glob, word) for glob, word in zip(entry, words, strict=False))
    return fits and (len(entry) == len(words) if whole else len(entry) <= len(words))


def _is_work(option: str, leading: str, commands: Commands) -> bool:
    """Whether an option makes a command that usually reads a change, also cut short or among other letters."""
    reads = commands.reads.get(leading)
    return reads is not None and any(_is_same_option(option, work) for work in reads.work)


def _is_same_option(option: str, known: str) -> bool:
    if option == known:
        return True
    if known.startswith("--"):
        name = option.partition("=")[0]
        return len(name) > 2 and known.startswith(name)
    short = len(known) == 2 and known[0] == "-"
    return short and option[:1] == "-" and option[:2] != "--" and known[1] in option[1:] and option != "-#"


def _is_run(option: str, leading: str, commands: Commands) -> bool:
    """Whether a program runs what stands behind an option."""
    entries = (entry.split() for entry in commands.code)
    known = (one for entry in entries if _stands_before(entry, leading) for one in entry if one[:1] == "-" != one)
    return any(_is_same_option(option, one) for one in known)


def _stands_before(entry: Sequence[str], leading: str) -> bool:
    """Whether a command begins with the plain words of an entry of `commands.code`."""
    names, words = [word for word in entry if word[:1] not in ("-", "<", ".")], leading.split()
    return len(names) <= len(words) and all(map(matches_text, names, words))
