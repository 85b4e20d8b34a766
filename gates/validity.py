"""Gate `validity`: the tool exists, its arguments fit its schema, and it changes nothing that needs a plan first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from foregate.gates.schema_check import SchemaCheck
from foregate.policy.policy import Policy
from foregate.schemas.codes import GateName
from foregate.schemas.judgement import Mode, Number, Opinion, Ruling, Standing
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import Turn

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
        every = self.policy.validity.closed_arguments == "all"
        checks = {
            name: SchemaCheck(
                spec.parameters,
                closed=every or spec.provenance == "builtin",
                references=self.policy.validity.max_references,
            )
            for name, spec in self.catalogue.items()
        }
        object.__setattr__(self, "_checks", checks)

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion:
        rulings = {call.id: self.rule_on_call(call, so_far.facts[call.id].survey.problem) for call in live}
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
        defect = self._checks[call.name].find_first_defect(call.arguments)
        return hold_invalid(defect or problem) if defect or problem else _PASSED

    def describe_unknown(self, call: ToolCall) -> str:
        """Return the sentence that names the nearest tool there is, or why what was begun is no call."""
        near = get_close_matches(call.name[:64], self._checks, n=1)
        hint = f"did you mean `{near[0]}`?" if near else call.defect or "use one of the tools offered"
        return f"there is no tool `{call.name[:64]}`; {hint}"


def hold_invalid(why: str, *numbers: Number) -> Ruling:
    """Return the hold of arguments that cannot be used."""
    return Ruling(Standing.HOLD, "invalid_arguments", why, numbers=numbers)


def measure_depth(value: object) -> int:
    """Return how deep objects and arrays nest, without recursion."""
    deepest, stack = 0, [(value, 1)]
    while stack:
        item, depth = stack.pop()
        if isinstance(item, str):
            continue
        if isinstance(item, (dict, Mapping)):
            deepest = max(deepest, depth)
            stack.extend((inner, depth + 1) for inner in item.values())
        elif isinstance(item, list):
            deepest = max(deepest, depth)
            stack.extend((inner, depth + 1) for inner in item)
    return deepest
