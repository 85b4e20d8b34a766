"""What events of a session say of the same thing: policy and tools in force, answers, counts, names, times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from foregate.schemas import event_body, strict_json
from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.judgement import Answer, CallRuling, Judgement, Verdict
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import EvidenceKind, EvidenceRecord, Trust
from foregate.schemas.tool_spec import ToolSpec, hash_catalogue
from foregate.schemas.turn import TurnRecord

Finding = tuple[str, str]
"""The name of a defect, and why in words."""

_COUNTED = ("model_calls", "tool_calls", "tokens", "cost", "safety_calls", "safety_rounds")
_ENDED = ("turns", "model_calls", "tool_calls", "tokens", "cost")
_READER = "read_file"
"""The tool whose output is the bytes of a file."""
_ALTERED = ("[masked ", "\ufffd")
"""What stands in a text that is not all of what was read: something masked, bytes that are no text."""
_BOUND = ("gate", "who", "key", "digests", "expires_at")
"""What an answer repeats of its question."""


class AgreementChecker:
    """Checks events in order, each against what those before it say of the same thing.

    Whoever writes a log anew so that the chain holds must tell the same lie in all of these places.
    """

    def __init__(self) -> None:
        self._policy = self._catalogue = self._prompts = self._time = ""
        self._begun = False
        self._raised: tuple[str, NeedRaised] | None = None
        self._answers: dict[int, Answer] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._names: dict[str, str] = {}
        self._started: dict[str, tuple[str, str]] = {}
        self._seen: dict[tuple[str, str, str], tuple[int, str, str]] = {}
        self._task = 0
        self._said: list[int] = []
        self._used: Counter[str] = Counter()

    def check_event(self, event: Event) -> Iterator[Finding]:
        """Yield what of `event` is another thing than what those before it say."""
        if event.time < self._time:
            yield "time_back", f"it is of {event.time}, and the event before it of {self._time}"
        self._time = event.time
        match event.body:
            case event_body.SessionStarted() | event_body.PolicyChanged() | event_body.CatalogChanged() as body:
                yield from self._take_in_force(event, body)
            case event_body.TaskStarted(task=task):
                yield from self._begin_task(task)
            case event_body.UserMessage():
                self._said.append(event.seq)
            case ModelResponded() as body:
                self._take_response(body)
            case NeedRaised() as body:
                self._raised = event.policy, body
            case NeedAnswered() as body:
                yield from self._check_answer(event, body)
            case TurnJudged() as body:
                yield from self._check_judgement(body)
            case event_body.ToolStarted() as body:
                yield from self._check_start(body)
            case event_body.SandboxEnded() | event_body.ToolFinished() as body:
                yield from self._check_end(event, body)
            case event_body.OutcomeResolved(evidence=evidence) | event_body.EffectUndone(evidence=evidence):
                self._note_evidence(event, evidence or ())
            case event_body.CallAnswered() as body:
                yield from self._check_refusal(body)
            case event_body.TaskEnded() as body:
                yield from self._check_use(body)
            case _:
                pass
        if self._begun and event.policy != self._policy:
            yield "other_policy", f"it names the policy {event.policy[:12]}, and {self._policy[:12]} is in force"

    def _begin_task(self, task: int) -> Iterator[Finding]:
        if task != self._task + 1 and self._begun:
            yield "other_task", f"it begins task {task}, and the one before it was task {self._task}"
        self._task, self._said = task, []
        self._used.clear()

    def _check_use(self, body: event_body.TaskEnded) -> Iterator[Finding]:
        for name in _ENDED if self._begun else ():
            if (told := getattr(body, name)) != (counted := self._used[name]):
                yield "other_use", f"it says that the task used {name} {told}, and its events say {counted}"

    def _take_in_force(
        self, event: Event, body: event_body.SessionStarted | event_body.PolicyChanged | event_body.CatalogChanged
    ) -> Iterator[Finding]:
        """Take in which policy and tools hold from now on, and yield where their hashes are not those recorded."""
        if isinstance(body, event_body.SessionStarted):
            if event.seq != 1:
                yield "begins_again", "the session begins once more"
            self._begun, self._prompts = True, body.prompts_hash
        if not isinstance(body, event_body.CatalogChanged) and body.policy is not None:
            if isinstance(body, event_body.PolicyChanged) and self._begun and body.before != self._policy:
                yield "other_policy", "the policy it replaces is not the one that was in force"
            if strict_json.digest(body.policy) != event.policy:
                yield "other_policy", "its policy does not have the hash that it is recorded under"
            self._policy = event.policy
        if not isinstance(body, event_body.PolicyChanged):
            self._catalogue = _hash_tools(msgspec.json.encode(body.catalogue))
            if self._catalogue != body.catalogue_hash:
                yield "other_catalogue", "its tools do not have the hash that was recorded with them"

    def _take_response(self, body: ModelResponded) -> None:
        calls = [*body.calls, *(body.program.calls if body.program is not None else ())]
        if body.continues is None:
            for known in (self._answers, self._verdicts, self._names, self._started):
                known.clear()
            usage = body.usage
            self._used["model_calls"] += body.places is None
            self._used["tokens"] += usage.input_tokens + usage.output_tokens
            self._used["cost"] += usage.cost
        self._names.update((recorded.id, recorded.name) for recorded in calls)

    def _check_answer(self, event: Event, body: NeedAnswered) -> Iterator[Finding]:
        """Yield where an answer is not one to the question before it, or not by the one who was asked."""
        answer, raised = body.answer, self._raised
        self._raised, self._answers[event.seq] = None, answer
        if answer.who != "person":
            used, usage = self._used, body.usage
            used["safety_calls"] += body.model_calls
            used["safety_rounds"] += answer.who == "critic"
            used["tokens"] += usage.input_tokens + usage.output_tokens if usage is not None else 0
            used["cost"] += usage.cost if usage is not None else 0
        if event.actor != answer.who:
            yield "other_answerer", f"it is said to be by the {event.actor}, and the question was put to {answer.who}"
        if raised is None:
            if self._begun:
                yield "answer_without_question", "it answers a question that nobody asked"
            return
        policy, asked = raised
        need = asked.need
        same = all(getattr(need, name) == getattr(answer, name) for name in _BOUND)
        if not same or answer.survey_hash != asked.survey_hash or answer.policy_hash not in (policy, event.policy):
            yield "other_question", "it answers another question than the one that was asked"

    def _check_judgement(self, body: TurnJudged) -> Iterator[Finding]:
        turn, judgement = body.turn, body.judgement
        self._names.update((recorded.id, recorded.name) for recorded in turn.proposed or ())
        self._used["turns"] += turn.actor == "model" and not turn.cause
        if self._begun:
            yield from self._check_basis(turn)
        else:
            yield "no_beginning", "no event before it says which policy and which tools hold"
        for seq in turn.answers:
            if seq not in self._answers:
                yield "answer_missing", f"it was judged with an answer in event {seq}, which is none of this turn"
        if turn.answers:
            yield from self._check_approval(turn, judgement)
        self._verdicts.update((verdict.call, verdict) for verdict in judgement.verdicts)

    def _check_basis(self, turn: TurnRecord) -> Iterator[Finding]:
        """Yield what a judged turn says of its session that the session's events do not."""
        if (turn.policy_hash, turn.catalogue_hash) != (self._policy, self._catalogue):
            what = "a policy" if turn.policy_hash != self._policy else "tools"
            yield "other_policy", f"it was judged under {what} that did not hold then"
        if turn.prompts_hash != self._prompts:
            yield "other_prompts", "it was judged under prompts that are not the session's"
        if turn.task != self._task:
            yield "other_task", f"it judges task {turn.task}, and task {self._task} was under way"
        if list(turn.user_messages) != self._said:
            yield "other_messages", "it was judged by other messages than those of its task"
        for name in _COUNTED:
            if (told := getattr(turn.counters, name)) != (counted := self._used[name]):
                yield "other_use", f"it was judged with {name} at {told}, and the events before it say {counted}"
        for found in (resource for survey in turn.surveys for resource in survey.resources):
            for seen in found.evidence:
                at = self._seen.get((found.kind, found.id, seen.kind))
                if at is None or (seen.seq, seen.hash, seen.at or at[2]) != at:
                    yield "other_evidence", f"it rests on a look at `{found.id[:80]}` that event {seen.seq} has not"

    def _check_approval(self, turn: TurnRecord, judgement: Judgement) -> Iterator[Finding]:
        """Yield where what a person answered and what was ruled on it are not the same."""
        given = [one for seq in turn.answers if (one := self._answers.get(seq)) is not None and one.gate == "approval"]
        digests = {verdict.call: verdict.digest for verdict in judgement.verdicts}
        for decision in judgement.decisions:
            if decision.gate != "approval" or decision.mode != "enforce":
                continue
            for ruling in decision.rulings:
                about = [one for one in given if digests.get(ruling.call) in one.digests]
                if why := _find_disagreement(ruling, about):
                    yield "other_answer", why
            told = decision.detail
            if "choice" in told and not any(_says(one, told) for one in given):
                yield "other_answer", "what it says the person chose is not what any of its answers says"

    def _check_start(self, body: event_body.ToolStarted) -> Iterator[Finding]:
        self._used["tool_calls"] += body.look is None and body.applies is None
        self._started[body.call] = body.tool, body.target
        yield from self._check_name(body.call, body.tool)

    def _check_end(self, event: Event, body: event_body.SandboxEnded | event_body.ToolFinished) -> Iterator[Finding]:
        if self._started.get(body.call, (body.tool, body.target)) != (body.tool, body.target):
            yield "other_call", f"`{body.call}` ends as another tool, or at another target, than it was started"
        if isinstance(body, event_body.ToolFinished) and not body.early:
            for name, count in body.used.items():
                self._used[name] += count
            self._note_evidence(event, body.evidence)
            if body.tool == _READER and not body.dropped and _is_otherwise(body):
                yield "other_content", f"what `{body.call}` is said to have read is not what it has the hash of"

    def _note_evidence(self, event: Event, evidence: Iterable[EvidenceRecord]) -> None:
        for record in evidence:
            resource = record.resource
            self._seen[resource.kind, resource.id, record.kind] = event.seq, record.hash, event.time

    def _check_refusal(self, body: event_body.CallAnswered) -> Iterator[Finding]:
        """Yield where a call that did not run is answered with something else than was ruled."""
        yield from self._check_name(body.call, body.tool)
        if body.ruling == "not_run":
            return
        verdict = self._verdicts.get(body.call)
        ruled = (verdict.standing.value, verdict.ruling.code) if verdict is not None else ()
        if ruled != (body.ruling, body.code):
            yield "other_ruling", f"`{body.call}` is answered as `{body.code}`, which is not what was ruled"

    def _check_name(self, call: str, tool: str) -> Iterator[Finding]:
        if (name := self._names.get(call)) is not None and name[:128] != tool:
            yield "other_call", f"`{call}` is of the tool `{name[:80]}`, and is said to be of `{tool[:80]}`"


def _find_disagreement(ruling: CallRuling, about: Sequence[Answer]) -> str:
    """Return why a ruling of the approval gate is not what the answers about its call say, "" where it may be."""
    call = ruling.call
    if ruling.code == "approval_granted" and about and not any(answer.is_yes_to(call) for answer in about):
        return f"`{call}` counts as approved, and the answer about it was no yes"
    if ruling.code == "approval_denied" and not (about and not about[-1].is_yes_to(call)):
        return f"`{call}` counts as refused, and no answer about it was a no"
    if ruling.code == "approval_expired" and not about:
        return f"`{call}` counts as never answered, and was not asked about"
    return ""


def _is_otherwise(body: event_body.ToolFinished) -> bool:
    """Whether a text that was read whole has another hash than was recorded with it; one that was masked may."""
    seen = body.evidence[0] if body.evidence else None
    if seen is None or seen.kind is not EvidenceKind.FILE_READ or seen.trust is not Trust.DIRECT or not seen.hash:
        return False
    text = body.content
    return strict_json.sha256(text.encode()) != seen.hash and not any(mark in text for mark in _ALTERED)


def _says(answer: Answer, told: Mapping[str, Json]) -> bool:
    """Whether what a decision tells of an answer, who gave it and what it was, is what the answer says."""
    return (answer.value or {}).get("by", "person") == told.get("by") and answer.choice == told["choice"]


@lru_cache(maxsize=256)
def _hash_tools(catalogue: bytes) -> str:
    """Return the hash of tools, given as they are encoded: many sessions have the same ones."""
    return hash_catalogue(msgspec.json.decode(catalogue, type=tuple[ToolSpec, ...]))
