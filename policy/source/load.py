"""From YAML text to the policy in force: the defaults, one user file over them, and a workspace file that may only
tighten; and what a session records of that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, cached_property, lru_cache
from pathlib import Path as FilePath

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import ValidationError

from foregate.policy.mandate_section import Direct, Flows
from foregate.policy.policy import Policy
from foregate.policy.section import Claims
from foregate.policy.source.keys import POLICY, find_defects, find_surprises
from foregate.policy.source.layers import RULES, Layer, Tree, build_layer, get_rule_id, lay_over, read_layer
from foregate.policy.source.problems import find_doubled_rules, find_problems, locate_problem, raise_first
from foregate.policy.source.shipped import FOLDER, find_default, parse_default
from foregate.policy.source.strict_yaml import Data, Path, Problem, escape_text, format_path, walk_values
from foregate.policy.source.workspace_file import tighten_tree
from foregate.schemas.errors import PolicyError
from foregate.schemas.strict_json import Json, as_object, as_texts, get_int, get_list, get_object, scrub

WORKSPACE_FILE = ".foregate.yaml"
"""The name of a workspace's own policy file, at its root."""
_WORKSPACE = f"workspace {WORKSPACE_FILE}"

SHIPPED = ("cheap", "balanced", "strong", "classic")
"""The names of the policies that come with Foregate, each a file beside default.yaml."""


class LoadedPolicy(Struct, frozen=True, dict=True):
    """The policy in force and where each value comes from.

    `tree` holds the values with their places, from which `provenance` is worked out when it is asked for. `tightened`
    are the keys the workspace file changed, `ignored` those it left looser than they are already. `sources` names the
    files, in the order they were laid over each other. `workspace` holds the workspace file's own values, which a
    session records, so that another user file can be laid beneath them later.
    """

    policy: Policy
    tree: Tree
    tightened: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    sources: tuple[str, ...] = ("default.yaml",)
    workspace: Mapping[str, Data] = field(default_factory=dict)

    @cached_property
    def provenance(self) -> Mapping[str, str]:
        """Dotted paths with `default`, `policy.yaml:12` or `workspace .foregate.yaml:3`; rules stand under their id."""
        return find_provenance(self.tree)

    @property
    def moved(self) -> Mapping[str, str]:
        """What of `provenance` is not the default's."""
        found = self.provenance.items() if self.tree.places else ()
        return {key: origin for key, origin in found if origin != "default"}


@cache
def default_policy() -> Policy:
    """Return the embedded default policy."""
    if find_default(FOLDER) is None:
        return build_policy(build_default_tree(), [])
    # What could never work was looked for when it was compiled.
    return build_from_data(default_data())


@cache
def default_data() -> dict[str, Data]:
    """Return the values of default.yaml; not to be changed."""
    return parse_default(FOLDER)[0]


def build_default_tree() -> Tree:
    """Return the values of default.yaml to lay others over."""
    return Tree(msgspec.to_builtins(default_data()))


def resolve_policy_file(named: str) -> FilePath:
    """Return the file a policy is asked for by: the one that comes with Foregate for its bare name, else the path.

    The bare name never means a file of the current folder: that may be somebody else's, and would be trusted. Such a
    file is named with its folder, as in `./classic`. Raises PolicyError for a name that is nearly a shipped one's and
    no file's.
    """
    if named in SHIPPED:
        return FOLDER / f"{named}.yaml"
    file = FilePath(named).expanduser()
    near = get_close_matches(named[:64].lower(), SHIPPED, n=1) if "/" not in named else []
    if near and not file.exists():
        sentence = f"there is no such policy file; did you mean `{near[0]}`, which comes with Foregate?"
        raise PolicyError(f"{escape_text(named)}: {sentence}")
    return file


def load_policy_layers(user_file: FilePath | None = None, workspace: FilePath | None = None) -> LoadedPolicy:
    """Return the policy in force.

    `user_file` lies over the defaults: mappings merge, lists replace, except `rules.list`, which it extends (a rule
    with a known id replaces that one), and `null` takes out an entry of `tools`, or of `read_only`, `reads` or `access`
    of `commands`. The file `.foregate.yaml` in `workspace` may then only tighten. Raises PolicyError with one sentence
    that names file, line, key and what is allowed.
    """
    own = workspace / WORKSPACE_FILE if workspace is not None else None
    there = own is not None and (own.exists() or own.is_symlink())
    user = read_layer(user_file, user_file.name, trusted=True) if user_file is not None else None
    return layer_policy(user, read_layer(own, _WORKSPACE, trusted=False) if own is not None and there else None)


def load_policy(named: FilePath | str) -> Policy:
    """Return the policy of a file over the defaults; `named` is its path or the bare name of a shipped one.

    No workspace file is read. Raises PolicyError with one sentence that names file, line, key and what is allowed.
    """
    return load_policy_layers(resolve_policy_file(str(named))).policy


def restore_layer(values: Mapping[str, Data]) -> Layer | None:
    """Return a workspace file from the values a session recorded of it; None where it recorded none."""
    return Layer(_WORKSPACE, _WORKSPACE, dict(values), {}) if values else None


def layer_policy(user: Layer | None, own: Layer | None = None) -> LoadedPolicy:
    """Return the policy of a user's layer over the defaults, tightened by a workspace's own; see `load`."""
    tree = build_default_tree()
    layers = [layer for layer in (user, own) if layer is not None]
    tightened: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    policy = lay_over_checked(tree, user) if user is not None else default_policy()
    if own is not None:
        lay_over_checked(Tree(msgspec.to_builtins(tree.data), tree.places), own)
        tightened, ignored = tighten_tree(tree, own, policy, default_policy())
        policy = build_policy(tree, layers)
    sources = ("default.yaml", *(layer.name for layer in layers))
    return LoadedPolicy(policy, tree, tightened, ignored, sources, own.data if own is not None else {})


def lay_over_checked(tree: Tree, layer: Layer) -> Policy:
    """Lay a layer over values and return the policy; raise PolicyError naming the first thing wrong with the layer."""
    own = replace(layer, data=msgspec.to_builtins(layer.data))
    trial = Tree(msgspec.to_builtins(tree.data), tree.places)
    policy = _lay_over_soundly(trial, own)
    if policy is None:
        raise_first(find_problems(own, tree, POLICY, find_senseless), layer, "foregate policy check")
        return build_from_data(tree.data)
    tree.data, tree.places = trial.data, trial.places
    return policy


def _lay_over_soundly(tree: Tree, layer: Layer) -> Policy | None:
    """Lay a layer over values and return the policy; None where anything may be wrong with it, which is then sought."""
    if any(value is None for _, value in walk_values(layer.data)) or any(find_doubled_rules(layer)):
        return None
    try:
        lay_over(tree, layer)
        policy = build_from_data(tree.data)
    except ValueError:
        return None
    return None if any(find_defects(policy, _find_sound())) else policy


def _find_sound() -> Policy | None:
    """Return the embedded policy where it is known that all of it can work."""
    return default_policy() if find_default(FOLDER) is not None else None


def check_text(name: str, label: str, text: str) -> list[str]:
    """Return every problem of a user's file as a sentence, by line; an empty list means it can be used."""
    faults: list[Problem] = []
    try:
        layer = build_layer(name, label, text, faults=faults)
    except PolicyError as error:
        # Nothing can be read behind that.
        return [*(sentence for _, sentence in faults), str(error)]
    return check_layer(layer, faults)


def check_layer(layer: Layer, faults: Sequence[Problem] = ()) -> list[str]:
    """Return every problem of a user's layer as a sentence, by line, the `faults` of its text among them; an
    empty list means it can be used."""
    found = find_problems(layer, build_default_tree(), POLICY, find_senseless, faults)
    return [sentence for _, sentence in found]


def list_surprises(layer: Layer) -> list[str]:
    """Return a sentence for whatever in a usable user's layer may look like more than it is; see `check_layer`."""
    tree = build_default_tree()
    lay_over(tree, layer)
    found = (locate_problem(tree, *one) for one in find_surprises(build_policy(tree, [layer])))
    return [sentence for _, sentence in sorted(found)]


def build_policy(tree: Tree, layers: Sequence[Layer]) -> Policy:
    """Return the values in force as a policy; raise PolicyError naming the first that cannot be one."""
    raise_first(find_senseless(tree), layers[-1] if layers else None, "foregate policy check")
    return build_from_data(tree.data)


def build_from_data(data: Data) -> Policy:
    """Return the policy of these values; raise ValueError where they make none."""
    return Policy.model_validate_json(msgspec.json.encode(data))


def find_senseless(tree: Tree) -> Iterator[Problem]:
    """Yield line and sentence for every well-typed value that could never work."""
    for path, sentence in find_defects(build_from_data(tree.data)):
        yield locate_problem(tree, path, sentence)


def find_provenance(tree: Tree) -> dict[str, str]:
    """Return where each value comes from, by dotted path; lists count as one value, rules stand under their id."""
    found: dict[str, str] = {}
    stack: list[tuple[Path, Data]] = [((), tree.data)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict) and value:
            stack.extend(((*path, key), inner) for key, inner in reversed(value.items()))
        elif path == RULES:
            for place, rule in enumerate(value):
                found[format_path((*RULES, get_rule_id(rule)))] = tree.describe_origin((*RULES, place))
        else:
            found[format_path(path)] = tree.describe_origin(path)
    return found


_ONCE: Mapping[tuple[str, str], Data] = {
    ("commands", "open_ended"): [],
    ("commands", "further_words"): [],
    ("commands", "scripts"): {},
    ("commands", "reads"): {},
    ("commands", "about"): [],
    ("commands", "access"): {},
    ("commands", "deletes"): [],
    ("commands", "checks"): [],
    ("commands", "completes"): [],
    ("commands", "code"): {},
    ("files", "runs_by_itself"): [],
    ("critique", "risk_in_doubt"): 0,
    ("drift", "wishes"): "contract",
    ("http", "unlisted"): "fail",
    ("http", "unsaid"): {"path": 0, "query": 0, "content": 0, "random": 0},
    ("limits", "malformed_calls"): 0,
    ("mandate", "mode"): "off",
    ("postlude", "claims"): {name: [] for name in Claims.model_fields},
    ("postlude", "promises"): [],
    ("mandate", "direct"): {name: {} if name in ("typed", "signs", "speech") else [] for name in Direct.model_fields},
    ("mandate", "flows"): {name: 0 if name in ("verbatim", "codes", "encoded") else [] for name in Flows.model_fields},
    ("mandate", "naming"): [],
    ("mandate", "pushing"): [],
    ("mandate", "addressing"): [],
    ("mandate", "numbers"): {},
    ("mandate", "durations"): {},
    ("mandate", "days"): {},
    ("mandate", "weekdays"): {},
    ("mandate", "doubtful_days"): {},
    ("mandate", "remarks"): [],
    ("mandate", "salutations"): [],
    ("plan", "form"): "call",
    ("sensitive", "formats"): {},
    ("sensitive", "values"): {"named": 0, "random": 8, "entropy": 0, "besides": []},
}
"""Keys that decide otherwise than versions without them did: where one is missing, its session was judged like this."""


def record_layers(loaded: LoadedPolicy | None, guarded: Sequence[str] = ()) -> dict[str, Json]:
    """Return what is recorded beside a policy, without what is empty.

    `from` maps each key that is not the default's to where it comes from, `workspace` holds the workspace file's own
    values, and `guarded` the globs of Foregate's own files. A policy given as an object has no origins.
    """
    found: dict[str, Json] = {"given": loaded is None, "guarded": list(guarded)}
    if loaded is not None:
        found["from"] = {key: scrub(origin) for key, origin in loaded.moved.items()}
        found["workspace"] = dict(loaded.workspace)
    return {name: value for name, value in found.items() if value}


BESIDE_USER = ("workspace", "guarded", "spent")
"""What of recorded layers a session's policy is made of, besides the user's file."""


def replace_user_layer(user: Layer | None, layers: Mapping[str, Json]) -> Policy:
    """Return the policy of a session with these recorded layers, had it been opened with the user's layer `user`.

    Raises PolicyError where the workspace's file would have been refused beneath it, InvalidJson for layers that were
    not recorded so.
    """
    policy = layer_policy(user, restore_layer(get_object(layers, "workspace"))).policy
    policy = add_protected_globs(policy, as_texts(get_list(layers, "guarded"), "guarded"))
    for spent in get_list(layers, "spent"):
        usages = {name: as_object(usage, name) for name, usage in as_object(spent, "spent").items()}
        counts = {name: {counter: get_int(of, counter) for counter in of} for name, of in usages.items()}
        policy = narrow_limits(policy, counts)
    return policy


def restore_policy(data: Json) -> Policy:
    """Return a policy a session recorded; keys an earlier version did not know have their defaults.

    A key of `_ONCE` has the value that stands for doing without. Raises ValueError for what is no policy.
    """
    return _restore_policy(msgspec.json.encode(data))


@lru_cache(maxsize=8)
def _restore_policy(text: bytes) -> Policy:
    """Return the policy of a JSON text; most sessions of a log, and all turns of most sessions, have the same one."""
    try:
        return Policy.model_validate_json(text)
    except ValidationError:
        data = _keep_meaning(msgspec.json.decode(text))
        default = dict(default_data())
        for (section, key), value in _ONCE.items():
            default[section] = {**default[section], key: value}
        return build_from_data(fill_defaults(data, default))


def _keep_meaning(data: Data) -> Data:
    """Return a policy of before `commands.code` with what its number of verification rounds came to: an answer went
    back once whatever it said, as it does by 2. Signs of more than a request had one list for all their marks."""
    mandate = data.get("mandate") if isinstance(data, dict) else None
    direct = mandate.get("direct") if isinstance(mandate, dict) else None
    if isinstance(data, dict) and isinstance(mandate, dict) and isinstance(direct, dict) and "delegating" in direct:
        moved = ("signs", "delegating", "infinitives")
        kept: dict[str, Data] = {name: words for name, words in direct.items() if name not in moved}
        kept |= {"signs": {"pasted": direct["signs"]}, "speech": {name: direct[name] for name in moved[1:]}}
        data = {**data, "mandate": {**mandate, "direct": kept}}
    limits, commands = (data.get(name) if isinstance(data, dict) else None for name in ("limits", "commands"))
    if not isinstance(limits, dict) or "verification_rounds" not in limits:
        return data
    if isinstance(commands, dict) and "code" in commands:
        return data
    return {**data, "limits": {**limits, "verification_rounds": 2}}


def fill_defaults(data: Data, default: Data) -> Data:
    """Return mappings with the keys they lack from the default's."""
    if not (isinstance(data, dict) and isinstance(default, dict)):
        return data
    known = {key: fill_defaults(value, default.get(key)) for key, value in data.items()}
    return {**{key: value for key, value in default.items() if key not in data}, **known}


def describe_origin(key: str, layers: Mapping[str, Json] | None, default: bool) -> str:
    """Return where the value of a key comes from, in words; `default` tells whether it is the embedded policy's."""
    if layers and key.split(".")[0] in ("limits", "safety") and layers.get("spent") and not default:
        return "what its parent task had left"
    known = get_object(layers or {}, "from").get(key)
    if known is not None:
        return str(known)
    if default or (layers is not None and not layers.get("given")):
        guarded = key == "files.protected" and bool(layers and layers.get("guarded"))
        return "the default policy and Foregate's own files" if guarded else "the default policy"
    return "a policy given by the program" if layers else "the log does not say where it comes from"


def add_protected_globs(policy: Policy, globs: Sequence[str]) -> Policy:
    """Return the policy with further globs among `files.protected`."""
    if not globs:
        return policy
    data = policy.model_dump(mode="json")
    data["files"]["protected"] = list(dict.fromkeys([*data["files"]["protected"], *globs]))
    return build_from_data(data)


def narrow_limits(policy: Policy, spent: Mapping[str, Mapping[str, int]]) -> Policy:
    """Return the policy with limits cut by what a parent task has spent; at least one of each remains."""
    data = policy.model_dump(mode="json")
    for section, usage in spent.items():
        for name, count in usage.items():
            if data[section][name]:
                # A limit of 0 would be none at all.
                data[section][name] = max(1, data[section][name] - count)
    return build_from_data(data)
