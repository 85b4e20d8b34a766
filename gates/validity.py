"""Gate `validity`: the tool exists, its arguments fit its schema, and it changes nothing that needs a plan first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema
import re2
from jsonschema import Draft202012Validator, ValidationError
from msgspec.structs import replace
from referencing import Registry

from foregate.gates.malformed import build_example, describe_wanted, wrap_lists
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.codes import GateName
from foregate.schemas.foreign_tools import find_nearest_tool
from foregate.schemas.judgement import Mode, Number, Opinion, Remedy, Ruling, Standing
from foregate.schemas.protocols import SoFar
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import Turn

_DEFECTS, _WANTED, _EXAMPLE = 5, 600, 400
"""Defects named at once, and characters of what is wanted and of an example."""
_REMEMBERED, _REMEMBERED_SIZE = 32, 2048
"""Arguments of a tool whose check is remembered, since a turn is judged under many policies; and their characters."""
REFERENCES = 10_000
"""References followed for one call where no policy says how many."""


class SchemaCheck:
    """A tool's JSON Schema, compiled once; patterns run on RE2, no reference leaves the schema, and at most
    `references` are followed for one call. Raises jsonschema.SchemaError for a schema that is none."""

    def __init__(self, schema: Mapping[str, Json], *, closed: bool, references: int = REFERENCES) -> None:
        own = remove_dialects(schema)
        self._references = references
        if closed and "properties" in own:
            own.setdefault("additionalProperties", False)
        _check_schema(strict_json.canonical(own).decode())
        self._validator = _Validator(own, registry=Registry())
        self._known: dict[str, str] = {}

    def find_first_defect(self, arguments: Mapping[str, Json]) -> str:
        """Return one sentence naming the argument and what is wrong, "" when nothing is."""
        said = repr(arguments)  # unlike JSON it tells 1 from 1.0 and a list from a tuple
        if (known := self._known.get(said)) is not None:
            return known
        found = next(iter(self.find_defects(arguments, 1)), "")
        if len(said) <= _REMEMBERED_SIZE:
            if len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[said] = found
        return found

    def find_defects(self, arguments: Mapping[str, Json], most: int | None = None) -> list[str]:
        """Return a sentence for each thing that is wrong, `most` at the most."""
        before = _LEFT.set([self._references])
        try:
            return [_describe_error(error) for error in islice(self._validator.iter_errors(arguments), most)]
        except (TooManyReferences, RecursionError):
            return [f"the tool's schema follows more than {self._references} references here; send simpler arguments"]
        finally:
            _LEFT.reset(before)


@lru_cache(maxsize=1024)
def _build_check(schema: str, closed: bool, references: int) -> SchemaCheck:
    """Return the check of a schema by its text: the same for every policy over a catalogue."""
    own = strict_json.as_object(strict_json.decode_record(schema))
    return SchemaCheck(own, closed=closed, references=references)


def _describe_error(error: ValidationError) -> str:
    where = ".".join(str(part) for part in error.absolute_path)
    return f"the argument `{where}` does not fit: {error.message[:300]}" if where else error.message[:300]


class TooManyReferences(Exception):
    """Checking one call follows more references than the policy lets it: a small schema can mean an endless one."""


_LEFT: ContextVar[list[int]] = ContextVar("references left")
"""How many references may still be followed for the arguments in hand."""


def remove_dialects(schema: Json) -> Any:
    """Return a schema without the `$schema` of its parts: the library would check those by that dialect's own rules,
    with patterns on Python's engine and references uncounted."""
    if isinstance(schema, list):
        return [remove_dialects(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: remove_dialects(value) for key, value in schema.items() if key != "$schema" or not isinstance(value, str)
    }


@lru_cache(maxsize=256)
def _check_schema(schema: str) -> None:
    """Raise SchemaError for what is no JSON Schema; every session of a process has much the same ones."""
    _Validator.check_schema(json.loads(schema))


def _check_pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and not re2.search(pattern, instance):
        yield ValidationError(f"`{instance[:60]}` does not match the pattern `{pattern[:60]}`")


def _check_pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "object"):
        for pattern, subschema in patterns.items():
            for key in (key for key in instance if re2.search(pattern, key)):
                yield from validator.descend(instance[key], subschema, path=key, schema_path=pattern)


def _check_additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    patterns = list(schema.get("patternProperties", ()))
    known = schema.get("properties", {})
    for key, value in instance.items():
        if key in known or any(re2.search(pattern, key) for pattern in patterns):
            continue
        if validator.is_type(allowed, "object"):
            yield from validator.descend(value, allowed, path=key)
        elif not allowed:
            names = ", ".join(f"`{name}`" for name in known) or "none"
            yield ValidationError(f"there is no argument `{key[:60]}`; the arguments are {names}")


def _counting(keyword: str) -> Callable[..., Iterator[ValidationError]]:
    """Return the library's own check of a keyword that refers, which counts how often it is followed."""
    follow: Callable[..., Iterator[ValidationError]] = Draft202012Validator.VALIDATORS[keyword]

    def check(validator: Any, reference: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        left = _LEFT.get()
        left[0] -= 1
        if left[0] < 0:
            raise TooManyReferences
        yield from follow(validator, reference, instance, schema)

    return check


def _check_required(validator: Any, required: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "object"):
        for key in required:
            if key not in instance:
                yield ValidationError(f"the argument `{key}` is missing")


def _check_unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """The library compares each item that cannot be sorted with every other, which a long list makes endless."""
    is_checked = wanted and validator.is_type(instance, "array")
    if is_checked and len({strict_json.canonical(item) for item in instance}) < len(instance):
        yield ValidationError("two of its items are the same")


_Validator: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": _check_additional_properties,
        "required": _check_required,
        "uniqueItems": _check_unique,
        "$ref": _counting("$ref"),
        "$dynamicRef": _counting("$dynamicRef"),
    },
)


_PASSED = Ruling(Standing.ALLOW, "validity_passed")
_UNPLANNED = Ruling(
    Standing.HOLD,
    "plan_required",
    "changes wait here for a plan that a person confirms; where none comes, say in words what you would change",
)


@dataclass(frozen=True)
class ValidityGate:
    """Denies an unknown tool, holds arguments that cannot be read or break the tool's JSON Schema.

    It also holds the changes of a response that brings more of them than may be made without a plan: no policy turns
    this gate off, and nobody's `anyway` reaches it.
    """

    policy: Policy
    catalogue: Catalogue
    name: GateName = "validity"
    mode: Mode = "enforce"
    _checks: Mapping[str, SchemaCheck] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        section = self.policy.validity
        every, references = section.closed_arguments == "all", section.max_references
        checks = {
            name: _build_check(
                strict_json.encode_record(spec.parameters).decode(), every or spec.provenance == "builtin", references
            )
            for name, spec in self.catalogue.items()
        }
        object.__setattr__(self, "_checks", checks)

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion:
        rulings = {call.id: self.rule_on_call(call, so_far.facts[call.id].survey.problem) for call in live}
        if self.policy.limits.malformed_calls:
            again = [call for call in live if was_held(call, rulings[call.id], turn)]
            rulings |= {call.id: self.explain(call, rulings[call.id]) for call in again}
        if turn.unplanned is not None:
            changing = [call.id for call in live if so_far.facts[call.id].changes]
            if len(changing) > turn.unplanned:
                rulings |= {call: _UNPLANNED for call in changing if rulings[call] is _PASSED}
        return Opinion(rulings)

    def rule_on_call(self, call: ToolCall, problem: str) -> Ruling:
        """Return the ruling on one call; `problem` says why nobody could look at what it names."""
        if call.name not in self._checks:
            return Ruling(Standing.DENY, "unknown_tool", self.describe_unknown(call))
        if call.arguments is None:
            return hold_invalid(call.defect)
        size, bound = len(call.raw.encode()), self.policy.validity.max_bytes
        if bound and size > bound:
            number = Number("bytes", size, bound, "validity.max_bytes")
            return hold_invalid(f"the arguments are larger than {bound} bytes; send less", number)
        depth, deepest = measure_depth(call.arguments), self.policy.validity.max_depth
        if depth > deepest:
            number = Number("depth", depth, deepest, "validity.max_depth")
            return hold_invalid(f"the arguments are nested deeper than {deepest}; flatten them", number)
        check, schema = self._checks[call.name], self.catalogue[call.name].parameters
        defect = check.find_first_defect(call.arguments)
        helps = self.policy.limits.malformed_calls > 0
        if helps and defect and (wrapped := wrap_lists(schema, call.arguments, check.find_first_defect)) is not None:
            why = f"{defect}; send the list `{strict_json.canonical(wrapped).decode()[:_EXAMPLE]}`"
            return replace(hold_invalid(why), remedy=Remedy(call.name, wrapped))
        return hold_invalid(defect or problem) if defect or problem else _PASSED

    def explain(self, call: ToolCall, ruling: Ruling) -> Ruling:
        """Return the ruling on a call that was sent again as it was: all that is wrong, what is wanted, an example."""
        check, schema = self._checks[call.name], self.catalogue[call.name].parameters
        given = call.arguments or {}
        wrong = "; ".join(check.find_defects(given, _DEFECTS)) if call.arguments is not None else call.defect
        told = f"this is the call that was held before, and it is held again: {wrong or ruling.message}."
        told += f" `{call.name[:64]}` takes {describe_wanted(schema)[:_WANTED]}."
        if wrong and (example := build_example(schema, given, check.find_first_defect)) is not None:
            told += f" These arguments would fit: {strict_json.canonical(example).decode()[:_EXAMPLE]}"
        return replace(ruling, message=told)

    def describe_unknown(self, call: ToolCall) -> str:
        """Return the sentence that names the nearest tool there is, or why what was begun is no call."""
        near = find_nearest_tool(call.name, self._checks)
        hint = f"did you mean `{near}`?" if near else call.defect or "use one of the tools offered"
        return f"there is no tool `{call.name[:64]}`; {hint}"


def was_held(call: ToolCall, ruling: Ruling, turn: Turn) -> bool:
    """Whether arguments that do not fit were sent before, just like this; those too large to look at are not meant."""
    same, told = (call.digest, ruling.code), ruling.code == "invalid_arguments" and not ruling.numbers
    return told and any((held.digest, held.code) == same for held in turn.holds)


def hold_invalid(why: str, *numbers: Number) -> Ruling:
    return Ruling(Standing.HOLD, "invalid_arguments", why, numbers=numbers)


def measure_depth(value: object) -> int:
    """Return how deep objects and arrays nest, without recursion."""
    deepest, stack = 0, [(value, 1)]
    while stack:
        item, depth = stack.pop()
        if isinstance(item, dict):
            item = list(item.values())
        if isinstance(item, list):
            deepest = max(deepest, depth)
            stack.extend((inner, depth + 1) for inner in item)
    return deepest
