"""What in a usable policy does nothing, opens more than it says, or relies on what is turned off."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct, field

from foregate.policy.policy import Policy
from foregate.policy.source.layers import RULES, Layer, Tree, get_rule_id
from foregate.policy.source.load import LoadedPolicy, default_policy, layer_policy
from foregate.policy.source.strict_yaml import Path, format_path
from foregate.policy.source.workspace_file import find_leaves
from foregate.schemas.tool_spec import ToolSpec
from foregate.tuning.lint_rules import find_rule_remarks
from foregate.tuning.lint_settings import Remark, find_idle_thresholds, find_missing_partners
from foregate.tuning.open_reads import find_open_reads

_CLASSIFIED = ("run_command", "run_shell")


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
