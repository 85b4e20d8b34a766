"""Which rules and thresholds no case notices, and the recorded turns whose cases would."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from foregate.audit.pieces import UNREADABLE, read_turns, split_session
from foregate.gates.cases.case import Case, Fate, find_fates, judge_case
from foregate.gates.cases.cutting import STEERING, is_noticed, judge_mutated
from foregate.gates.cases.mutations import Mutation, list_mutations
from foregate.gates.prelude import Prelude, build_prelude
from foregate.gates.replay.redecide import survey_again
from foregate.policy.policy import Policy
from foregate.schemas.errors import LogError
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import Catalogue, build_catalogue
from foregate.schemas.turn import Turn
from foregate.telemetry.audit.rebuild_turn import RecordedTurn

_WANTING = ("model", "sandbox")


class KeyNotice(Struct, frozen=True):
    """A rule, switch, choice or number of the policy: the case that notices when it is moved, "" for none.

    `offered` is the address of a recorded decision of which a case would, "" where none of those looked at does.
    """

    key: str
    case: str = ""
    offered: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return the fields as JSON values."""
        return {"key": self.key, "noticed": bool(self.case), "case": self.case, "offered": self.offered}


def find_notices(cases: Sequence[tuple[str, Case]], policy: Policy) -> tuple[list[KeyNotice], list[Mutation]]:
    """Return which case notices each key, and the mutations of the keys that none notices.

    A case that fails under the policy notices nothing.
    """
    usual = [(name, case, judge_case(case, policy)) for name, case in cases]
    passing = [(name, case) for name, case, fate in usual if fate == case.expected]
    found: dict[str, str] = {}
    mutations = list_mutations(policy)
    for mutation in mutations:
        if not found.get(mutation.key):
            found[mutation.key] = _find_case(passing, policy, mutation)
    left = [mutation for mutation in mutations if not found[mutation.key]]
    return [KeyNotice(key, case) for key, case in found.items()], left


def _find_case(cases: Iterable[tuple[str, Case]], policy: Policy, mutation: Mutation) -> str:
    """Return the name of the first case that notices a mutation, "" for none."""
    noticing = (n for n, case in cases if is_noticed(judge_mutated(case, policy, mutation), case.expected))
    return next(noticing, "")


def find_offers(
    log: Readable, sessions: Sequence[str], policy: Policy, mutations: Sequence[Mutation], most: int
) -> dict[str, str]:
    """Return by key the address of a recorded decision that comes out otherwise once the key is moved.

    The newest `most` turns with calls are looked at. Raises LogError for a log that cannot be read.
    """
    left: dict[str, list[Mutation]] = {}
    for mutation in mutations:
        left.setdefault(mutation.key, []).append(mutation)
    found: dict[str, str] = {}
    benches = _Benches(policy)
    for session, recorded in islice(list_newest(log, sessions), most):
        usual = _keep_recorded(recorded, benches.judge(recorded, None))
        for key in [key for key in left if key not in found] if usual else ():
            for mutation in left[key]:
                now = benches.judge(recorded, mutation)
                moved = [call for call, fate in usual.items() if is_noticed(now[call], fate)]
                if moved and key not in found:
                    found[key] = f"{session}:{recorded.seq}.{_find_gate(recorded, moved[0])}:{moved[0]}"
        if len(found) == len(left):
            break
    return found


def _keep_recorded(recorded: RecordedTurn, fates: Mapping[str, Fate]) -> dict[str, Fate]:
    """Return the fates that are those in the log: only of these does `policy case` make a case that passes."""
    verdicts = {one.call: (one.standing.value, one.gate, one.ruling.code) for one in recorded.judgement.verdicts}
    return {call: fate for call, fate in fates.items() if verdicts[call] == (fate.verdict, fate.gate, fate.code)}


def _find_gate(recorded: RecordedTurn, call: str) -> str:
    """Return the gate by whose decision a call of a recorded turn is named."""
    gate = recorded.judgement.find_verdict(call).gate
    gates = [decision.gate for decision in recorded.judgement.decisions]
    return gate if gate in gates else gates[0]


def list_newest(log: Readable, sessions: Sequence[str]) -> Iterator[tuple[str, RecordedTurn]]:
    """Yield the turns in which the model wanted something, the newest first."""
    for session in reversed(sessions):
        try:
            turns = [turn for piece in split_session(log, session) for turn in read_turns(log, piece)]
        except UNREADABLE as error:
            why = f"session `{session}` cannot be read ({type(error).__name__}: {error})".splitlines()[0][:200]
            raise LogError(f"{why}; `foregate audit verify` tells what was changed") from None
        wanting = [turn for turn in turns if turn.turn.calls and turn.turn.actor in _WANTING]
        yield from ((session, turn) for turn in reversed(wanting))


class _Benches:
    """The gates of a policy and of its mutations over catalogues, built once for each."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._built: dict[tuple[int, str], Prelude] = {}
        self._catalogues: dict[str, Catalogue] = {}

    def judge(self, recorded: RecordedTurn, mutation: Mutation | None) -> Mapping[str, Fate]:
        """Return the fates of a turn's calls under the policy, or under a mutation of it."""
        turn, policy = recorded.turn, self._policy if mutation is None else mutation.policy
        catalogue = self._find_catalogue(recorded)
        unknown: dict[str, str] = {}
        if mutation is not None and mutation.path[0] in STEERING:
            turn, unknown, _ = survey_again(turn, policy, self._policy, catalogue)
        fates = find_fates(turn, policy, self._find_bench(turn, policy, catalogue))
        return {call: Fate("hold", "", "", unknown=unknown[call]) if call in unknown else fates[call] for call in fates}

    def _find_catalogue(self, recorded: RecordedTurn) -> Catalogue:
        key = recorded.turn.catalogue_hash
        if key not in self._catalogues:
            self._catalogues[key] = build_catalogue(recorded.in_force.require()[1])
        return self._catalogues[key]

    def _find_bench(self, turn: Turn, policy: Policy, catalogue: Catalogue) -> Prelude:
        key = (id(policy), turn.catalogue_hash)
        if key not in self._built:
            self._built[key] = build_prelude(policy, catalogue)
        return self._built[key]
