"""What was computed of the calls of a turn when it was judged: computed once more, for their risk and origin."""

from __future__ import annotations

from collections.abc import Mapping

from foregate.gates.questions import find_first_origin
from foregate.policy.policy import Policy
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.source.load import restore_policy
from foregate.schemas import strict_json
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import Catalogue, ToolSpec, build_catalogue
from foregate.schemas.turn import TurnRecord
from foregate.telemetry.audit.rebuild_turn import InForce, Lookup, rebuild_turn
from foregate.telemetry.index.decision_rows import UNREADABLE, IndexedCall

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
            self._ready = self._restore_policy(values), self._restore_catalogue(tools)
            self._held = in_force
        return self._ready

    def _restore_policy(self, values: Mapping[str, Json]) -> Policy:
        """Return a policy by what it says, and not by the hash it goes under."""
        name = strict_json.sha256(strict_json.encode_record(values))
        if (found := self._policies.get(name)) is None:
            if len(self._policies) >= _POLICIES:
                self._policies.clear()
            found = self._policies[name] = restore_policy(values)
        return found

    def _restore_catalogue(self, tools: tuple[ToolSpec, ...]) -> Catalogue:
        name = strict_json.sha256(strict_json.encode_record([strict_json.dump(tool) for tool in tools]))
        if (found := self._catalogues.get(name)) is None:
            if len(self._catalogues) >= _POLICIES:
                self._catalogues.clear()
            found = self._catalogues[name] = build_catalogue(tools)
        return found
