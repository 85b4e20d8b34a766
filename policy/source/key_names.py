"""Keys as people write them, `narration.min_chars`, and values as they stand in YAML: read, and checked for sense."""

from __future__ import annotations

import json
from pathlib import Path as FilePath

from foregate.policy.source.edit import NULL, TextChange
from foregate.policy.source.keys import POLICY
from foregate.policy.source.layers import RULES, get_rule_id, read_layer
from foregate.policy.source.load import default_data
from foregate.policy.source.strict_yaml import Data, Path, escape_text, format_path, parse_yaml
from foregate.schemas.errors import UsageError
from foregate.schemas.late_pattern import compile_late

# "tools", '"a.b"'.
_STEP = compile_late(r'"(?:[^"\\]|\\.)*"|[^."]+')


def parse_key(key: str) -> Path:
    """Return the path that a dotted key names; a step with dots in it stands in double quotes, as in `tools."a.b"`.

    A rule stands under its id. Raises UsageError for an unknown key, with the nearest known one.
    """
    steps = _STEP.findall(key)
    if not steps or ".".join(steps) != key:
        written = 'as in `narration.min_chars`, and a name with dots in double quotes, as in `tools."a.b"`'
        raise UsageError(f"`{escape_text(key)}` is no key; write it {written}")
    try:
        path: Path = tuple(json.loads(step) if step.startswith('"') else step for step in steps)
    except ValueError:
        raise UsageError(f"the quotes in `{escape_text(key)}` do not close; write them as in JSON") from None
    known = get_schema_path(path)
    for end in range(1, len(known) + 1):
        if POLICY.find_node(known[:end]) is None:
            outer = POLICY.find_node(known[: end - 1])
            if outer is None or outer.get("type") != "object":
                raise UsageError(f"`{escape_text(format_path(path[: end - 1]))}` has no keys; it is one value")
            raise UsageError(POLICY.describe_unknown_key(path[:end], outer))
    return path


def get_schema_path(path: Path) -> Path:
    """Return a path as the schema knows it: a rule by a number instead of its id."""
    return (*RULES, 0, *path[len(RULES) + 1 :]) if path[: len(RULES)] == RULES and len(path) > len(RULES) else path


def build_change(key: str, value: str | None, file: FilePath) -> TextChange:
    """Return the change that gives a key of a file a value, written in YAML; None takes it out of the file.

    A key of a default's rule that the file does not have brings the whole rule. Raises UsageError, or PolicyError for
    a file that cannot be read.
    """
    path = parse_key(key)
    if path == RULES:
        raise UsageError("name a rule by its id, as in `rules.list.no-force-push`")
    wanted = None if value is None else read_value(value)
    if path[: len(RULES)] != RULES or wanted is None or value is None:
        return TextChange(path, wanted)
    own = read_layer(file, file.name, trusted=True).data.get("rules")
    listed = own.get("list") if isinstance(own, dict) else None
    name = path[len(RULES)]
    if len(path) == len(RULES) + 1 or any(get_rule_id(rule) == name for rule in listed or ()):
        return TextChange(path, _name_rule(str(name), wanted) if len(path) == len(RULES) + 1 else wanted)
    known = next((rule for rule in default_data()["rules"]["list"] if rule["id"] == name), None)
    if known is None:
        raise UsageError(f"there is no rule `{escape_text(name)}`; give the whole rule as the value of its id")
    return TextChange(path[: len(RULES) + 1], {**known, str(path[-1]): wanted})


def _name_rule(name: str, rule: Data) -> Data:
    return {"id": name, **rule} if isinstance(rule, dict) else rule


def read_value(text: str) -> Data:
    """Return a value as YAML writes it; raise PolicyError for what is none."""
    value = parse_yaml(f"value: {text}\n" if "\n" not in text.strip() else f"value:\n{text}\n", "VALUE")[0]
    return NULL if value.get("value") is None else value["value"]
