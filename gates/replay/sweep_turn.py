"""What becomes of a recorded turn for every value of one key of the policy, or of two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from foregate.gates.prelude import Prelude, build_prelude
from foregate.gates.replay.assumption import find_domain
from foregate.gates.replay.redecide import replay_turn
from foregate.gates.replay.swept_number import Range, SweptNumber
from foregate.policy.policy import Policy
from foregate.policy.source.key_names import parse_key
from foregate.policy.source.strict_yaml import Path, format_path
from foregate.policy.source.values import list_values, replace_values
from foregate.schemas.errors import UsageError
from foregate.schemas.judgement import Answer, Judgement, Need, Standing, Who
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import Turn

MOST = 512
"""Ranges of one turn at most: beyond them a key does something else with its value than compare it."""
_SWEPT: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("scope", "safety", "narration", "drift", "uncertainty", "plan", "critique"), ()),
    "scores": ("risk", "uncertainty"),
    "limits": ("needs_per_gate",),
}
"""Sections, and what of them, where numbers are only compared and calculated with. Elsewhere one may be an index or be
handed to code that is not Python, where nobody can follow it."""
_BESIDE = ("plan.max_bytes", "critique.max_bytes")


class SweptQuestion(NamedTuple):
    """A question of a gate: to whom, and about which calls."""

    gate: str
    who: Who
    calls: tuple[str, ...]


class TurnEnd(NamedTuple):
    """What a turn comes to: the calls that do not run, each with the gate that decides so, and what was asked."""

    stopped: tuple[tuple[str, str], ...]
    asked: tuple[SweptQuestion, ...]


class SweptTurn(NamedTuple):
    """What a turn comes to for the values of the keys from `low` to `high`."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    end: TurnEnd


def find_numeric_key(key: str, policy: Policy) -> tuple[Path, int]:
    """Return the path of a key that can be swept, and its value; raise UsageError, in one sentence, for any other."""
    path = parse_key(key)
    value = list_values(policy).get(path)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"`{key}` is no number, so there is nothing to sweep; `policy what-if` tries another value")
    within = _SWEPT.get(str(path[0]))
    if within is None or key in _BESIDE or (within and path[1] not in within):
        raise UsageError(f"what `{key}` does cannot be told for all its values by judging recorded turns again")
    return path, value


def describe_end(judgement: Judgement, answers: Iterable[Answer], needs: Iterable[Need] = ()) -> TurnEnd:
    """Return what a turn comes to with these answers, and with the needs that none of them met."""
    verdicts = judgement.verdicts
    asked = [
        SweptQuestion(one.gate, one.who, tuple(v.call for v in verdicts if v.digest in one.digests)) for one in answers
    ]
    asked += [SweptQuestion(need.gate, need.who, need.calls) for need in needs]
    stopped = ((one.call, one.gate) for one in verdicts if one.standing is not Standing.ALLOW)
    return TurnEnd(tuple(stopped), tuple(asked))


def _put_value(policy: Policy, path: Path, value: int) -> None:
    """Put a number at a path of a policy that nobody else has."""
    *sections, name = map(str, path)
    place: Any = policy
    for at, step in enumerate(sections):
        inner = getattr(place, step)
        if isinstance(inner, Mapping):
            assert at == len(sections) - 1
            vars(place)[step] = {**inner, name: value}
            return
        place = inner
    vars(place)[name] = value


class _BuiltGates(Struct, frozen=True):
    """The gates of a policy whose swept keys have one value each, and the ranges in which those were built alike."""

    policy: Policy
    prelude: Prelude
    ranges: tuple[Range, ...]
    built: tuple[tuple[int, int], ...]

    def begin(self) -> None:
        """Widen the ranges to all for which the gates are the same."""
        for one, (low, high) in zip(self.ranges, self.built, strict=True):
            one.low, one.high = low, high


class TurnSweep:
    """Judges turns recorded under one policy for all values of one or two keys, and as seldom as that takes."""

    def __init__(self, policy: Policy, catalogue: Catalogue, keys: Sequence[Path]) -> None:
        self._policy, self._catalogue, self._keys = policy, catalogue, tuple(keys)
        self._domains = [find_domain(path) for path in keys]
        self._benches: dict[tuple[int, ...], _BuiltGates] = {}

    def sweep(self, turn: Turn) -> Iterator[SweptTurn]:
        """Yield what a turn comes to, range by range; together they hold every value. Raises UsageError for a key whose
        value does more than be compared."""
        (first, last), *other = self._domains
        at, judged = first, 0
        while at <= last:
            strip = list(self._sweep_strip(turn, at, *other))
            low, high = max(one.low[0] for one in strip), min(one.high[0] for one in strip)
            for one in strip:
                yield SweptTurn((low, *one.low[1:]), (high, *one.high[1:]), one.end)
            at, judged = high + 1, judged + len(strip)
            if judged > MOST:
                raise UsageError(self._refuse())

    def _sweep_strip(self, turn: Turn, first: int, second: tuple[int, int] | None = None) -> Iterator[SweptTurn]:
        """Yield what a turn comes to for one value of the first key, and all of the second where there is one."""
        at, high = second or (0, 0)
        for _ in range(MOST):
            found = self._judge(turn, (first, at) if second else (first,))
            yield found
            at = found.high[1] + 1 if second else 1
            if at > high:
                return
        raise UsageError(self._refuse())

    def _refuse(self) -> str:
        names = " and ".join(f"`{format_path(key)}`" for key in self._keys)
        if len(self._keys) > 1:
            return f"{names} are weighed against each other, so a turn turns at too many places; sweep one at a time"
        return f"{names} does more than be compared: a turn turns at more than {MOST} places, so it is not swept"

    def _judge(self, turn: Turn, values: tuple[int, ...]) -> SweptTurn:
        bench = self._find_bench(values)
        bench.begin()
        played = replay_turn(turn, bench.policy, bench.prelude, bench.prelude.facts(turn))
        widths = (high - low for low, high in self._domains)
        if any(one.is_weighed and width >= MOST for one, width in zip(bench.ranges, widths, strict=True)):
            # Without going through them: it turns at each value of one key.
            raise UsageError(self._refuse())
        missing = {id(need): need for need in played.missing.values()}.values()
        low, high = (one.low for one in bench.ranges), (one.high for one in bench.ranges)
        return SweptTurn(tuple(low), tuple(high), describe_end(played.judgement, played.used, missing))

    def _find_bench(self, values: tuple[int, ...]) -> _BuiltGates:
        if values not in self._benches:
            self._benches[values] = self._build_bench(values)
        return self._benches[values]

    def _build_bench(self, values: tuple[int, ...]) -> _BuiltGates:
        policy = replace_values(self._policy, dict(zip(self._keys, values, strict=True)))
        policy.hash  # noqa: B018 - it is of the plain values
        ranges = tuple(Range(value, *domain) for value, domain in zip(values, self._domains, strict=True))
        for path, within in zip(self._keys, ranges, strict=True):
            _put_value(policy, path, SweptNumber(within))
        prelude = build_prelude(policy, self._catalogue)
        return _BuiltGates(policy, prelude, ranges, tuple((one.low, one.high) for one in ranges))
