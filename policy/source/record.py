"""What a session records of where its policy comes from, and the policy it would have had over another user file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from foregate.policy.policy import Policy
from foregate.policy.source.layers import Layer
from foregate.policy.source.load import LoadedPolicy, default_data, layer_policy, restore_layer
from foregate.policy.source.strict_yaml import Data
from foregate.schemas.strict_json import Json, as_object, as_texts, get_int, get_list, get_object, scrub

_PARENT = "what its parent task had left"
_GUARD = " and Foregate's own files"
_EMPTY_ONCE = (("commands", "open_ended"),)
"""Lists that refuse what versions without them let through: where one is missing, its session was judged without."""


def record_layers(loaded: LoadedPolicy | None, guarded: Sequence[str] = ()) -> dict[str, Json]:
    """Return what is recorded beside a policy, without what is empty.

    `from` maps each key that is not the default's to where it comes from, `workspace` holds the workspace file's own
    values, and `guarded` the globs of Foregate's own files. A policy given as an object has no origins.
    """
    if loaded is None:
        return {"given": True, **({"guarded": list(guarded)} if guarded else {})}
    found: dict[str, Json] = {
        "from": {key: scrub(origin) for key, origin in loaded.origins.items()},
        "workspace": dict(loaded.workspace),
        "guarded": list(guarded),
    }
    return {name: value for name, value in found.items() if value}


def replace_user_layer(user: Layer | None, layers: Mapping[str, Json]) -> Policy:
    """Return the policy of a session with these recorded layers, had it been opened with the user's layer `user`.

    Raises PolicyError where the workspace's file would have been refused beneath it, InvalidJson for layers that were
    not recorded so.
    """
    policy = layer_policy(user, restore_layer(get_object(layers, "workspace"))).policy
    policy = add_protected_globs(policy, as_texts(get_list(layers, "guarded"), "guarded"))
    for spent in get_list(layers, "spent"):
        policy = narrow_limits(
            policy, {name: _read_counts(usage, name) for name, usage in as_object(spent, "spent").items()}
        )
    return policy


def restore_policy(data: Json) -> Policy:
    """Return a policy a session recorded; keys an earlier version did not know have their defaults. A list of
    `_EMPTY_ONCE` is empty. Raises ValueError for what is no policy."""
    try:
        return validate_policy(data)
    except ValidationError:
        default = dict(default_data())
        for section, key in _EMPTY_ONCE:
            default[section] = {**default[section], key: []}
        return validate_policy(fill_defaults(data, default))


def fill_defaults(data: Data, default: Data) -> Data:
    """Return mappings with the keys they lack from the default's."""
    if not (isinstance(data, dict) and isinstance(default, dict)):
        return data
    known = {key: fill_defaults(value, default.get(key)) for key, value in data.items()}
    return {**{key: value for key, value in default.items() if key not in data}, **known}


def describe_origin(key: str, layers: Mapping[str, Json] | None, default: bool) -> str:
    """Return where the value of a key comes from, in words; `default` tells whether it is the embedded policy's."""
    if layers and key.split(".")[0] in ("limits", "safety") and layers.get("spent") and not default:
        return _PARENT
    known = get_object(layers or {}, "from").get(key)
    if known is not None:
        return str(known)
    if default or (layers is not None and not layers.get("given")):
        guarded = key == "files.protected" and bool(layers and layers.get("guarded"))
        return f"the default policy{_GUARD if guarded else ''}"
    return "a policy given by the program" if layers else "the log does not say where it comes from"


def add_protected_globs(policy: Policy, globs: Sequence[str]) -> Policy:
    """Return the policy with further globs among `files.protected`."""
    if not globs:
        return policy
    data = policy.model_dump(mode="json")
    data["files"]["protected"] = list(dict.fromkeys([*data["files"]["protected"], *globs]))
    return validate_policy(data)


def narrow_limits(policy: Policy, spent: Mapping[str, Mapping[str, int]]) -> Policy:
    """Return the policy with limits cut by what a parent task has spent; at least one of each remains."""
    data = policy.model_dump(mode="json")
    for section, usage in spent.items():
        for name, count in usage.items():
            if data[section][name]:
                data[section][name] = max(1, data[section][name] - count)
    return validate_policy(data)


def _read_counts(usage: Json, name: str) -> dict[str, int]:
    counts = as_object(usage, name)
    return {counter: get_int(counts, counter) for counter in counts}


def validate_policy(data: Data) -> Policy:
    """Return the policy of these values."""
    return Policy.model_validate_json(json.dumps(data))
