"""Gate `validity`: the tool exists, its arguments fit its schema, and it changes nothing that needs a plan first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.gates.support.malformed import build_example, describe_wanted, wrap_lists
from foregate.gates.support.plain_schema import fits_plainly, read_plain_type
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.codes import GateName
from foregate.schemas.judgement import Mode, Number, Opinion, Remedy, Ruling, Standing, build_pass
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Catalogue, find_nearest_tool
from foregate.schemas.turn import Turn

if TYPE_CHECKING:
    from foregate.gates.support.schema_check import SchemaCheck

_DEFECTS, _WANTED, _EXAMPLE = 5, 600, 400
"""Defects named at once, and characters of what is wanted and of an example."""

_PASSED = build_pass("validity")
_UNPLANNED = Ruling(
    Standing.HOLD,
    "plan_required",
    "changes wait here for a plan that a person confirms; where none comes, say in words what you would change",
)


class ValidityGate(Struct, frozen=True, eq=False):
    """Denies an unknown tool, holds arguments that cannot be read or break the tool's JSON Schema.

    It also holds the changes of a response that brings more of them than may be made without a plan: no policy turns
    this gate off, and nobody's `anyway` reaches it.
    """

    policy: Policy
    catalogue: Catalogue
    name: GateName = "validity"
    mode: Mode = "enforce"
    _texts: dict[str, str] = field(default_factory=dict)
    _plain: dict[tuple[str, bool], type[Struct] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, spec in self.catalogue.items():
            # Whoever wrote its schema hears of a bad one before a session begins.
            if spec.provenance != "builtin":
                from foregate.gates.support.schema_check import REFERENCES, build_check

                build_check(self.write_schema(name), False, REFERENCES, sound=False)

    def write_schema(self, name: str) -> str:
        """Return the JSON Schema of a tool's arguments."""
        if name not in self._texts:
            self._texts[name] = strict_json.encode_record(self.catalogue[name].parameters).decode()
        return self._texts[name]

    def is_closed(self, name: str) -> bool:
        """Whether a tool takes no arguments but those of its schema; a built-in one does not hang on the policy."""
        return self.catalogue[name].provenance == "builtin" or self.policy.validity.closed_arguments == "all"

    def find_plain_type(self, name: str) -> type[Struct] | None:
        """Return the type that a plain schema of a tool is, which is made at the tool's first call."""
        known = name, self.is_closed(name)
        if known not in self._plain:
            self._plain[known] = read_plain_type(self.write_schema(name), known[1])
        return self._plain[known]

    def find_check(self, name: str) -> SchemaCheck:
        """Return the check of a tool's arguments; that of a built-in tool is made at its first call."""
        # loading its library takes longer than most starts do
        from foregate.gates.support.schema_check import REFERENCES, build_check, has_references

        schema, own = self.write_schema(name), self.catalogue[name].provenance == "builtin"
        bound = self.policy.validity.max_references if has_references(schema) else REFERENCES
        return build_check(schema, self.is_closed(name), bound, own)

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion:
        facts, edition = so_far.facts, turn.edition
        rulings = {call.id: self.rule_on_call(call, facts[call.id].survey.problem, edition) for call in live}
        if turn.holds and self.policy.limits.malformed_calls:
            again = [call for call in live if was_held(call, rulings[call.id], turn)]
            rulings |= {call.id: self.explain(call, rulings[call.id]) for call in again}
        if turn.unplanned is not None:
            changing = [call.id for call in live if facts[call.id].changes]
            if len(changing) > turn.unplanned:
                rulings |= {call: _UNPLANNED for call in changing if rulings[call] is _PASSED}
        return Opinion(rulings)

    def rule_on_call(self, call: ToolCall, problem: str, edition: int = 0) -> Ruling:
        """Return the ruling on one call; `problem` says why nobody could look at what it names."""
        if call.name not in self.catalogue:
            return Ruling(Standing.DENY, "unknown_tool", self.describe_unknown(call, edition))
        if call.arguments is None:
            return hold_invalid(call.defect)
        section = self.policy.validity
        size, bound = len(call.raw) if call.raw.isascii() else len(call.raw.encode()), section.max_bytes
        if bound and size > bound:
            number = Number("bytes", size, bound, "validity.max_bytes")
            return hold_invalid(f"the arguments are larger than {bound} bytes; send less", number)
        depth, deepest = measure_depth(call.arguments), section.max_depth
        if depth > deepest:
            number = Number("depth", depth, deepest, "validity.max_depth")
            return hold_invalid(f"the arguments are nested deeper than {deepest}; flatten them", number)
        if not fits_plainly(call.arguments, self.find_plain_type(call.name)):
            check, schema = self.find_check(call.name), self.catalogue[call.name].parameters
            defect, helps = check.find_first_defect(call.arguments), self.policy.limits.malformed_calls > 0
            wrapped = wrap_lists(schema, call.arguments, check.find_first_defect) if helps and defect else None
            if wrapped is not None:
                why = f"{defect}; send the list `{strict_json.canonical(wrapped).decode()[:_EXAMPLE]}`"
                return replace(hold_invalid(why), remedy=Remedy(call.name, wrapped))
            if defect:
                return hold_invalid(defect)
        return hold_invalid(problem) if problem else _PASSED

    def explain(self, call: ToolCall, ruling: Ruling) -> Ruling:
        """Return the ruling on a call that was sent again as it was: all that is wrong, what is wanted, an example."""
        check, schema = self.find_check(call.name), self.catalogue[call.name].parameters
        given = call.arguments or {}
        wrong = "; ".join(check.find_defects(given, _DEFECTS)) if call.arguments is not None else call.defect
        told = f"this is the call that was held before, and it is held again: {wrong or ruling.message}."
        told += f" `{call.name[:64]}` takes {describe_wanted(schema)[:_WANTED]}."
        if wrong and (example := build_example(schema, given, check.find_first_defect)) is not None:
            told += f" These arguments would fit: {strict_json.canonical(example).decode()[:_EXAMPLE]}"
        return replace(ruling, message=told)

    def describe_unknown(self, call: ToolCall, edition: int) -> str:
        """Return the sentence that names the nearest tool there is, or why what was begun is no call.

        A tool of ours in a service that nobody here knows, as in `microsandbox.run_command`, only wants a line of the
        configuration.
        """
        near, (service, _, inner) = find_nearest_tool(call.name, self.catalogue), call.name.partition(".")
        hint = f"did you mean `{near}`?" if near else call.defect or "use one of the tools offered"
        if edition and near and near == inner and self.catalogue[near].provenance == "builtin":
            hint += f" `dialect.services` of the configuration can lead `{service[:64]}` to the service that has it"
        return f"there is no tool `{call.name[:64]}`; {hint}"


def was_held(call: ToolCall, ruling: Ruling, turn: Turn) -> bool:
    """Whether arguments that do not fit were sent before, just like this; those too large to look at are not meant."""
    same, told = (call.digest, ruling.code), ruling.code == "invalid_arguments" and not ruling.numbers
    return told and any((held.digest, held.code) == same for held in turn.holds)


def hold_invalid(why: str, *numbers: Number) -> Ruling:
    return Ruling(Standing.HOLD, "invalid_arguments", why, numbers=numbers)


def measure_depth(value: object) -> int:
    """Return how deep objects and arrays nest, without recursion."""
    depth, level = 0, [value]
    while level:
        inner: list[object] = []
        is_deeper = False
        for item in level:
            if isinstance(item, (dict, list)):
                is_deeper = True
                inner += item.values() if isinstance(item, dict) else item
        depth, level = depth + is_deeper, inner
    return depth
