"""Testing a policy with cases: expected and found, a JUnit report, and the keys that no case notices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

from msgspec import Struct

from foregate.evidence.state.recorded_turns import RecordedTurn
from foregate.policy.policy import Policy
from foregate.policy.source.load import restore_policy
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, LogError, UsageError
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import Catalogue, build_catalogue
from foregate.schemas.visible import make_visible
from foregate.tuning.case import Case, Fate, judge_case, read_case
from foregate.tuning.case_cutting import find_noticed, is_noticed
from foregate.tuning.mutations import Mutation, MutationJudge, list_mutations
from foregate.tuning.pieces import UNREADABLE, read_turns, split_session

ENDINGS = (".yaml", ".yml")


class CaseResult(Struct, frozen=True):
    """A case with what became of its call under a policy, None where it could not be judged, for the reason `error`."""

    file: str
    case: Case
    found: Fate | None
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether exactly what was expected came out: verdict, gate, code, rules, and who is asked."""
        return self.found is not None and self.found == self.case.expected

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        expected = self.case.expected.describe()
        if self.passed:
            return f"{self.case.name}: {expected}"
        found = self.found.describe() if self.found is not None else f"it cannot be judged: {self.error}"
        return f"{self.case.name}: expected {expected}; got {found}"

    def to_json(self) -> dict[str, Json]:
        """Return the result as JSON values."""
        return {
            "file": self.file,
            "case": self.case.name,
            "passed": self.passed,
            "expected": _dump_fate(self.case.expected),
            "found": _dump_fate(self.found) if self.found is not None else None,
            "error": self.error,
        }


def _dump_fate(fate: Fate) -> dict[str, Json]:
    return {"rules": [], "asked": [], **strict_json.dump(fate)}


def list_case_files(named: Sequence[Path]) -> list[Path]:
    """Return the files that hold cases: those named, and in folders every YAML file; raise UsageError for none."""
    found: dict[Path, None] = {}
    for path in named:
        inside = sorted(one for one in path.rglob("[!.]*") if one.suffix in ENDINGS) if path.is_dir() else [path]
        if not inside:
            raise UsageError(f"`{path}` holds no case; `foregate policy case SESSION:SEQ.GATE` writes one")
        found |= dict.fromkeys(inside)
    return list(found)


def read_cases(files: Iterable[Path]) -> Iterator[tuple[str, Case]]:
    """Yield each file's case; raise PolicyError for a file that holds none."""
    for file in files:
        yield str(file), read_case(file)


def run_case(file: str, case: Case, policy: Policy) -> CaseResult:
    """Return what becomes of a case under a policy."""
    try:
        return CaseResult(file, case, judge_case(case, policy))
    except (ForegateError, LookupError, TypeError, ValueError, AttributeError) as error:
        return CaseResult(file, case, None, f"{type(error).__name__}: {error}".splitlines()[0][:200])


def format_junit(results: Sequence[CaseResult], policy: str) -> str:
    """Return the results as a JUnit report; control characters in them are written out."""
    failures = sum(result.found is not None and not result.passed for result in results)
    errors = sum(result.found is None for result in results)
    counts = {"tests": str(len(results)), "failures": str(failures), "errors": str(errors)}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": make_visible(f"policy {policy}"), **counts})
    for result in results:
        about = {"classname": make_visible(result.file), "name": make_visible(result.case.name)}
        case = ElementTree.SubElement(suite, "testcase", about)
        if not result.passed:
            kind, code = ("error", "error") if result.found is None else ("failure", result.found.code)
            said = make_visible(result.sentence)
            ElementTree.SubElement(case, kind, {"type": code, "message": said}).text = said
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


_WANTING = ("model", "sandbox")


class KeyNotice(Struct, frozen=True):
    """A rule, switch, choice or number of the policy: the case that notices when it is moved, "" for none.

    `offered` is the address of a recorded decision whose case would, "" where none of those looked at does.
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
    benches = MutationJudge(policy, list_mutations(policy))
    found = {mutation.key: "" for mutation in benches.mutations}
    for name, case in cases:
        if judge_case(case, policy) == case.expected:
            for mutation in find_noticed(case, benches):
                found[mutation.key] = found[mutation.key] or name
    left = [mutation for mutation in benches.mutations if not found[mutation.key]]
    return [KeyNotice(key, case) for key, case in found.items()], left


def find_offers(
    log: Readable, sessions: Sequence[str], policy: Policy, mutations: Sequence[Mutation], most: int
) -> dict[str, str]:
    """Return by key the address of a recorded decision that comes out otherwise once the key is moved.

    The newest `most` turns with calls are looked at. Raises LogError for a log that cannot be read.
    """
    keys = {mutation.key for mutation in mutations}
    found: dict[str, str] = {}
    benches, frames = MutationJudge(policy, mutations), _Frames()
    for session, recorded in islice(list_newest(log, sessions), most):
        turn, catalogue = recorded.turn, frames.find_tools(recorded)
        usual = _keep_recorded(recorded, benches.judge(turn, catalogue), frames)
        for mutation in benches.list_reaching(turn, catalogue) if usual else ():
            if mutation.key not in found:
                now = benches.judge(turn, catalogue, mutation)
                moved = [call for call, fate in usual.items() if is_noticed(now[call], fate)]
                if moved:
                    found[mutation.key] = f"{session}:{recorded.seq}.{_find_gate(recorded, moved[0])}:{moved[0]}"
        if len(found) == len(keys):
            break
    return found


def _keep_recorded(recorded: RecordedTurn, fates: Mapping[str, Fate], frames: _Frames) -> dict[str, Fate]:
    """Return the fates that are those in the log: only of these does `policy case` make a case that passes."""
    verdicts = {one.call: (one.standing.value, one.gate, one.ruling.code) for one in recorded.judgement.verdicts}
    kept = {call: fate for call, fate in fates.items() if verdicts[call] == (fate.verdict, fate.gate, fate.code)}
    # Who is asked, and by which rule, the verdict does not say.
    own = frames.judge(recorded) if kept else {}
    return {call: fate for call, fate in kept.items() if own[call] == fate}


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


class _Frames:
    """The tools and the policies of recorded turns, built once for each of them."""

    def __init__(self) -> None:
        self._tools: dict[str, Catalogue] = {}
        self._policies: dict[str, MutationJudge] = {}

    def find_tools(self, recorded: RecordedTurn) -> Catalogue:
        """Return the tools of a recorded turn."""
        key = recorded.turn.catalogue_hash
        if key not in self._tools:
            self._tools[key] = build_catalogue(recorded.in_force.require()[1])
        return self._tools[key]

    def judge(self, recorded: RecordedTurn) -> Mapping[str, Fate]:
        """Return what becomes of the calls of a recorded turn under its own policy."""
        key = recorded.in_force.policy_hash
        if key not in self._policies:
            self._policies[key] = MutationJudge(restore_policy(recorded.in_force.require()[0]), ())
        return self._policies[key].judge(recorded.turn, self.find_tools(recorded))
