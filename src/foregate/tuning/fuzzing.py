"""Looking for ways around a policy: recorded calls written otherwise that come out milder though they do the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.survey.surveyor import Surveyor
from foregate.agent.tools.builtin.builtin import builtin_tools
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.local import LocalWorkspace
from foregate.evidence.state.session import SessionState
from foregate.gates.prelude import Prelude, build_prelude
from foregate.policy.policy import Policy
from foregate.policy.source.strict_yaml import Data
from foregate.schemas.errors import ForegateError
from foregate.schemas.tool_call import Loss, Origin, Survey, SurveyedResource, ToolCall
from foregate.schemas.tool_spec import Catalogue, Effect, ResourceKind, ToolSpec
from foregate.schemas.turn import Turn
from foregate.tuning.case import SEVERITY, Case, Fate, dump_case, find_fates, judge_case, load_case
from foregate.tuning.case_cutting import shrink
from foregate.tuning.variants import Variant, list_variants

_NO_MEMORY: dict[str, tuple[()]] = {"answers": (), "refusals": (), "holds": ()}
"""What was said of exactly the recorded call before, and so of no variant."""
_KEPT = (("case",), ("expect",), ("calls",), ("person",))
_FILES = (ResourceKind.FILE, ResourceKind.DIRECTORY)
_MOST_PARTS = 12
"""Folders deep that a recorded path may lie to be made again."""
_LARGEST = 65536


class Finding(Struct, frozen=True):
    """A variant of a recorded call that comes out milder: how it is written, its fate, and that of the call.

    `case` is the turn with the variant, in which what became of the call is expected.
    """

    variant: Variant
    found: Fate
    case: Case


def find_milder(turn: Turn, policy: Policy, catalogue: Catalogue) -> Iterator[Finding]:
    """Yield the variants of the calls of a turn that come out milder under a policy than the calls themselves.

    Both are looked at in a folder made anew with what the turn's calls name, and judged without what was answered and
    refused for exactly the call before. What a sandbox holds is judged as it will be when it has run, and did the same.
    """
    for call in turn.calls:
        survey = next((one for one in turn.surveys if one.call == call.id), None)
        if survey is not None and not survey.changes and call.arguments is not None:
            with TemporaryDirectory(prefix="foregate-fuzz-") as folder:
                _rebuild(Path(folder), survey)
                with closing(LocalWorkspace(folder)) as workspace:
                    bench = _VariantJudge(workspace, turn, survey, policy, catalogue)
                    yield from _vary(bench, call)


def _vary(bench: _VariantJudge, call: ToolCall) -> Iterator[Finding]:
    usual = bench.judge(call)
    if usual is None or SEVERITY[usual[1].verdict] == 0 or usual[1].gate == "validity":
        # A call that cannot be read does nothing, so no variant does the same.
        return
    for variant in list_variants(call):
        if variant.tool not in bench.catalogue:
            continue
        written = ToolCall.of(variant.tool, variant.arguments, id=call.id)
        now = bench.judge(written)
        if now is not None and bench.is_contained(now[0]) and not bench.is_contained(usual[0]):
            now = bench.judge_afterwards(now)
        if now is None or (now[1].gate == "validity" and now[1].verdict != "allow"):
            continue
        if SEVERITY[now[1].verdict] < SEVERITY[usual[1].verdict]:
            named = f"{variant.how}-{variant.tool}".replace(" ", "-").replace("_", "-").lower()
            yield Finding(variant, now[1], Case(named, now[0], bench.catalogue, call.id, usual[1]))


def cut_finding(finding: Finding, policy: Policy) -> Case:
    """Return the case of a finding without what neither fate hangs on; the call stays as written."""
    whole = finding.case
    start = dump_case(whole)

    def does(data: Data) -> bool:
        try:
            case = load_case(data)
            return case.expected == whole.expected and judge_case(case, policy) == finding.found
        except Exception:
            # What is left of a turn may fit together no more, in whatever way.
            return False

    return load_case(shrink(start, does, _KEPT)) if does(start) else whole


class _VariantJudge:
    """Looks at calls as if in the place of a recorded one, and judges them."""

    def __init__(
        self, workspace: LocalWorkspace, turn: Turn, survey: Survey, policy: Policy, catalogue: Catalogue
    ) -> None:
        self._turn, self._recorded, self._policy = turn, survey, policy
        tools = builtin_tools(workspace, policy)
        own = {tool.spec.name: tool.spec for tool in tools}
        self.catalogue: dict[str, ToolSpec] = {**own, **catalogue}
        self._prelude: Prelude = build_prelude(policy, self.catalogue)
        self._surveyor = Surveyor(workspace, Toolbox(tools), policy, self.catalogue)
        self._state = SessionState()
        for said in turn.user_messages:
            self._state.atoms.add_text(said.text, Origin.USER, said.seq)
        for atom in survey.atoms:
            self._state.atoms.add_text(atom.text, atom.origin, atom.seq)
        self._known = {(one.kind, one.id): one for one in survey.resources}

    def judge(self, call: ToolCall) -> tuple[Turn, Fate] | None:
        """Return the turn with a call in the recorded one's place, and its fate; None for one that cannot be judged."""
        try:
            survey = self._surveyor.survey_call(call, self._state)
            resources = tuple(self._remember(one) for one in survey.resources)
            if survey.command is not None and self._recorded.command is not None:
                survey = replace(survey, confinement=self._recorded.confinement, work=self._recorded.work)
            survey = replace(survey, resources=resources)
            # Where nobody can be asked, a question is a denial, and would hide that it is milder than one.
            turn = replace(self._turn, calls=(call,), surveys=(survey,), attended=True, **_NO_MEMORY)
            return turn, find_fates(turn, self._policy, self._prelude)[call.id]
        except (ForegateError, LookupError, TypeError, ValueError):
            return None

    def _remember(self, resource: SurveyedResource) -> SurveyedResource:
        """Return a resource with what was recorded of it, where it is the same thing."""
        known = self._known.get((resource.kind, resource.id))
        return replace(known, access=resource.access) if known is not None else resource

    def judge_afterwards(self, judged: tuple[Turn, Fate]) -> tuple[Turn, Fate] | None:
        """Return a turn whose call works in a sandbox as what it did is judged, which is what the recorded call would
        do; None where that is not known, or the call does not even begin."""
        turn, fate = judged
        touched = (one for one in self._recorded.resources if one.access.changes and one.kind in _FILES)
        changed = tuple(replace(one, loses=_find_loss(one)) for one in touched)
        if SEVERITY[fate.verdict] or not changed:
            return None
        survey = replace(turn.surveys[0], resources=changed, changes="0" * 64)
        after = replace(turn, actor="sandbox", surveys=(survey,))
        return after, find_fates(after, self._policy, self._prelude)[turn.calls[0].id]

    def is_contained(self, turn: Turn) -> bool:
        """Whether the call works in a sandbox, where it is judged by what it did."""
        return any(facts.contained for facts in self._prelude.facts(turn).values())


def _find_loss(resource: SurveyedResource) -> Loss:
    """Return what is lost of a resource where a command does to it what the recorded call would."""
    if not resource.exists:
        return ""
    return "moved" if resource.access is Effect.MOVE else "all"


def _rebuild(folder: Path, survey: Survey) -> None:
    """Make what a recorded call names, as far as it was there: files of the same size, and folders."""
    for resource in survey.resources:
        path = Path(resource.id)
        if path.is_absolute() or ".." in path.parts or not 0 < len(path.parts) <= _MOST_PARTS or not resource.exists:
            continue
        try:
            if resource.kind is ResourceKind.DIRECTORY:
                (folder / path).mkdir(parents=True, exist_ok=True)
            elif resource.kind is ResourceKind.FILE:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(b"x" * min(resource.size, _LARGEST))
        except OSError:
            # A name this machine cannot have is looked at as one that is not there.
            continue
