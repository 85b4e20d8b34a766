"""What was computed of the calls of a turn when it was judged: computed once more, for their risk and origin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from foregate.evidence.state.recorded_turns import InForce, Lookup, rebuild_turn
from foregate.gates.support.questions import find_first_origin
from foregate.policy.policy import Policy
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.source.load import restore_policy
from foregate.schemas import strict_json
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import Catalogue, build_catalogue
from foregate.schemas.turn import TurnRecord
from foregate.telemetry.queries.index_rows import UNREADABLE, IndexedCall

T = TypeVar("T")
_POLICIES = 64


class CallFactsReader:
    """Computes the facts of recorded turns; a policy or a catalogue that many sessions share is read once."""

    def __init__(self) -> None:
        self._policies: dict[str, Policy] = {}
        self._catalogues: dict[str, Catalogue] = {}
        # The same values come with turn after turn of a session; hashing them each time would cost more than the facts.
        self._held: InForce | None = None
        self._ready: tuple[Policy, Catalogue] | None = None

    def read(self, record: TurnRecord, in_force: InForce, lookup: Lookup) -> Mapping[str, IndexedCall]:
        """Return the calls of a turn by their ids, none where they cannot be computed any more."""
        try:
            policy, catalogue = self._restore(in_force)
            facts = compute_turn_facts(rebuild_turn(record, lookup), policy, catalogue)
            return {
                call: IndexedCall(one.call.name[:128], one.target, find_first_origin(one), one.risk.value)
                for call, one in facts.items()
            }
        except UNREADABLE:
            return {}

    def _restore(self, in_force: InForce) -> tuple[Policy, Catalogue]:
        if self._ready is None or self._held is not in_force:
            values, tools = in_force.require()
            specs: list[Json] = [strict_json.dump(tool) for tool in tools]
            policy = _find_known(self._policies, values, lambda: restore_policy(values))
            self._ready = policy, _find_known(self._catalogues, specs, lambda: build_catalogue(tools))
            self._held = in_force
        return self._ready


def _find_known(known: dict[str, T], value: Json, restore: Callable[[], T]) -> T:
    """Return what was restored of a value before, by what it says, and not by the hash it goes under."""
    name = strict_json.sha256(strict_json.encode_record(value))
    if name not in known:
        if len(known) >= _POLICIES:
            known.clear()
        known[name] = restore()
    return known[name]
