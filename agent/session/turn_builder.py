"""From a response, or its record, to what the judge reads of it, and what can be computed of its calls."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import starmap
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.session.result import CallNotStarted
from foregate.agent.session.session_log import SessionLog
from foregate.agent.survey.call_surveyor import CallSurveyor
from foregate.evidence.ledger import find_strings
from foregate.evidence.state.recorded_turns import find_body, rebuild_turn
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.task import OpenSandbox, OpenTurn, TaskState
from foregate.gates.prelude import Prelude
from foregate.policy.policy import Policy
from foregate.policy.risk.mandate import wants_plan
from foregate.policy.risk.proposal import confirms, find_agreed_answer
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import Actor, Draft, Event, TurnJudged
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, SandboxEnded, ToolFinished
from foregate.schemas.judgement import Answer, Judgement, Voided
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.sandbox import SandboxedChanges
from foregate.schemas.tool_call import CallFacts, Contradiction, Permit, Survey, ToolCall, ToolResult, hash_surveys
from foregate.schemas.turn import EDITION, Said, Turn, TurnActor, TurnRecord
from foregate.schemas.value import read_value

_CARRYING_OUT = (
    *("turn_judged", "tool_started", "sandbox_ended", "need_raised", "need_answered", "tool_finished"),
    *("outcome_unknown", "call_answered", "task_paused"),
)
"""What may stand in the log after a judgement while it is carried out: nothing anybody else did or switched."""
_SHOWN = 8
"""Contradictions of the session that a turn holds."""
_CHANGED = "what was judged has changed since the answer"


Facts = Mapping[str, CallFacts]
"""What was computed of calls, by call id."""


class TurnInHand(Struct, frozen=True):
    """A turn on its way: what the judge reads, what was computed, the judgement once there is one, and its event."""

    turn: Turn
    facts: Facts
    judgement: Judgement | None = None
    judged: int = 0


class TurnBuilder:
    """Surveys calls and puts together the turns of one session."""

    def __init__(
        self,
        log: SessionLog,
        surveyor: CallSurveyor,
        prelude: Prelude,
        policy: Policy,
        *,
        depth: int,
        attended: bool,
    ) -> None:
        self._log, self._state, self._surveyor, self._prelude = log, log.state, surveyor, prelude
        self._policy, self._depth, self._attended = policy, depth, attended

    def build_turn(self, open_turn: OpenTurn) -> TurnInHand:
        """Survey the calls of a response and return its turn; answers that no longer fit are void."""
        response, limit = open_turn.response, self._policy.limits.calls_per_response
        calls = response.calls[: limit or None]
        surveys = self._surveyor.survey(calls, self._state)
        answers, voided = self.split_answers(open_turn.answers, surveys)
        more = {"surveys": surveys, "text": response.text, "answers": answers, "voided": voided}
        return self.build_own_turn(open_turn.seq, calls, "model", open_turn.continues, **more)

    def build_own_turn(
        self, response: int, calls: tuple[ToolCall, ...], actor: TurnActor, cause: int, **more: Any
    ) -> TurnInHand:
        """Return a turn of the open task over `calls`; `more` are fields of Turn, `surveys` where there are any.

        An unknown mode lets no change be made without a plan.
        """
        state, task, now = self._state, self._state.running_task, self._log.clock()
        digests, permissions = {call.digest for call in calls}, state.permissions
        given = task.earlier.answer
        unplanned = max(0, 1 - task.touched) if state.mode == "auto" else 0
        if "surveys" not in more:
            more["surveys"] = self._surveyor.survey(calls, state)
        turn = Turn(
            response=response,
            task=task.number,
            turn=task.used["turns"] + (0 if actor == "model" and cause else 1),
            now=now,
            policy_hash=self._policy.hash,
            catalogue_hash=state.catalogue_hash,
            prompts_hash=state.prompts_hash,
            calls=calls,
            user_messages=tuple(task.messages),
            proposal=self.find_proposal(task) if given is not None else None,
            depth=self._depth,
            actor=actor,
            cause=cause,
            attended=self._attended,
            auto=state.auto,
            dry_run=state.dry_run,
            counters=task.counters_at(now),
            plan=task.plan and task.uses.limit(task.plan),
            narrated=max(task.narrated, self.count_narrated(task)) if given is not None else task.narrated,
            slots_asked=tuple(task.slots_asked),
            slots_answered=tuple(task.slots_answered),
            grants=(*state.grants, *task.grants),
            permissions=permissions and tuple(one for one in permissions if one.tool in {call.name for call in calls}),
            refusals=tuple([one for one in task.refusals if one.digest in digests]) if task.refusals else (),
            holds=task.find_hold_counts(digests) if task.holds else (),
            fired=dict(task.fired),
            shadow_fired=dict(task.shadow_fired),
            just_failed=task.just_failed,
            during=task.during,
            done_steps=task.done_steps,
            edition=EDITION,
            contradictions=tuple(starmap(Contradiction, state.ledger.contradictions[-_SHOWN:])),
            unplanned=None if state.mode == "direct" or task.running_plan else unplanned,
            **more,
        )
        facts = self._prelude.facts(turn)
        if self._policy.plans_blind and actor == "model" and (turn.plan is None or not turn.plan.blind):
            for one in facts.values():
                if wants_plan(one, turn, self._policy):
                    used = task.uses.list_counts(value.key for survey in turn.surveys for value in survey.values or ())
                    turn = replace(turn, masked_words=mask_words(state), said_used=used)
                    break
        return TurnInHand(turn, facts)

    def find_proposal(self, task: TaskState) -> Said | None:
        """Return what the model proposed and the task's first message plainly agrees to, None for nothing."""
        answer = task.earlier.answer
        return (
            find_agreed_answer(answer, task.messages, self._policy) if answer is not None and not self._depth else None
        )

    def count_narrated(self, task: TaskState) -> int:
        """Return how much the model has said of what the person's yes allows."""
        answer = task.earlier.answer
        if answer is None or not self._policy.mandate.proposals or self._policy.mandate.mode == "off":
            return 0
        newest = task.messages[-1:]
        agrees = all(confirms(said.text, self._policy) for said in newest if said.actor == "user")
        return len(answer.text.strip()) if newest and agrees else 0

    def compute_open_facts(self) -> Facts:
        """Return the facts of the response that is not answered yet, as its calls are now; none without one."""
        state = self._state
        return self.build_turn(state.open).facts if state.open is not None and state.task is not None else {}

    def draft_judgement(
        self, turn: Turn, judgement: Judgement, *, stuck: str = "", notice: str = "", early: bool = False
    ) -> Draft:
        """Return the one event a judged turn leaves; `notice` is told to the model, `early` marks an early read."""
        open_turn = self._state.open
        cut = open_turn is not None and turn.actor == "model" and len(turn.calls) < len(open_turn.response.calls)
        body = TurnJudged(
            turn=TurnRecord.of(turn, judged_calls=len(turn.calls) if cut else None),
            judgement=judgement,
            survey_hash=turn.survey_hash,
            fingerprints=turn.fingerprints,
            plan=judgement.plan,
            stuck=stuck,
            notice=notice,
            early=early,
        )
        return Draft(body, "foregate")

    def split_answers(
        self, given: list[Answer], surveys: tuple[Survey, ...]
    ) -> tuple[tuple[Answer, ...], tuple[Voided, ...]]:
        """Return the answers that were given to what is now judged, and those that are void.

        An answer counts while nothing has changed since it was given: the newest ones do, back to the first that was
        given under another survey or policy. So it follows from the log alone, in every process.
        """
        if not given:
            return (), ()
        now, first = (hash_surveys(surveys), self._policy.hash), len(given)
        while first and (given[first - 1].survey_hash, given[first - 1].policy_hash) == now:
            first -= 1
        return tuple(given[first:]), tuple(Voided(answer.seq, answer.gate, _CHANGED) for answer in given[:first])

    async def restore_turn(self, open_turn: OpenTurn) -> TurnInHand | None:
        """Return a turn that was judged and not carried out, None where an earlier process judged it and it has lapsed.

        A call that was allowed and never started did not run, for `tool_started` is durable before any effect. Its
        permit is unused, and the executor surveys the call's resources again.
        """
        events = {event.seq: event for event in await self._log.read()}
        turn = rebuild_turn(find_body(open_turn.judged, TurnJudged, events.__getitem__).turn, events.__getitem__)
        since = (event for event in events.values() if event.seq > open_turn.judged)
        if open_turn.judged <= self._log.began_after and _has_lapsed(turn, since, self._log.clock()):
            return None
        return TurnInHand(turn, self._prelude.facts(turn), open_turn.judgement, open_turn.judged)


def _has_lapsed(turn: Turn, since: Iterable[Event], now: str) -> bool:
    """Whether a judgement permits nothing any more: a yes it rests on is too old, or something came in between.

    Policy, tools and switches changed, a message, an undo and a cancel all end it.
    """
    if any(answer.expires_at and now > answer.expires_at for answer in turn.answers):
        return True
    for event in since:
        match event.body:
            case ToolFinished(error="cancelled") | OutcomeUnknown(reason="cancelled"):
                return True
            case CallAnswered(code="not_run_cancelled"):
                return True
            case _ if event.kind not in _CARRYING_OUT:
                return True
    return False


_LONG = 4000
"""Characters of the newest words that are kept."""
_RUN = 8
"""Characters in a row that tell that something was copied."""
_PLAIN = 3
"""Letters of a word that names nothing by itself."""
# "(src/a.py)".
_TOKEN = compile_late(r"\S+")
# "read" and "file" in "read_file".
_WORD = compile_late(r"[^\W_]+")
# '\n', '\u00e9': the text may be JSON within JSON, in which such stand for a character.
_ESCAPE = compile_late(r"\\+(?:u([0-9a-fA-F]{4})|[nrtbf\"/])")
# "don't", "well-known".
_LETTERS = compile_late(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")


def mask_words(state: SessionState) -> str:
    """Return what the model said since the task began, each name that is not the person's as `<outside 1>`.

    The person's are the words of their messages. Every other that stands in a result or a call of the conversation is
    masked, whole or in part. So is every other number, address, path or code. Where earlier messages were left out of
    the conversation nobody can tell any more: nothing is returned.
    """
    conversation, task = state.conversation, state.task
    if task is None or conversation.left_out:
        return ""
    theirs = [message.text for message in conversation.messages if message.role == "tool"]
    theirs += [call.raw for message in conversation.messages for call in message.calls]
    texts = [
        message.text for message in conversation.messages[conversation.newest + 1 :] if message.role == "assistant"
    ]
    known = KnownWords.of((said.text for said in task.messages if said.actor == "user"), theirs)
    names: dict[str, str] = {}
    return " ".join(known.mask(text, names) for text in "\n".join(texts)[-_LONG:].splitlines()).strip()


class KnownWords:
    """The words of the person, and those of everybody else."""

    def __init__(self, own: frozenset[str], theirs: frozenset[str], text: str) -> None:
        self.own, self.theirs, self.text = own, theirs, text

    @classmethod
    def of(cls, own: Iterable[str], theirs: Iterable[str]) -> KnownWords:
        """Return what is known from the person's messages and from what everybody else said."""
        text = fold("\n".join(way for one in theirs for way in list_ways(one)))
        return cls(frozenset(_WORD.findall(fold("\n".join(own)))), frozenset(_WORD.findall(text)), text)

    def mask(self, text: str, names: dict[str, str]) -> str:
        """Return a text with names masked; `names` numbers them, so that the same name has the same number."""
        found: list[str] = []
        for match in _TOKEN.finditer(text):
            word = match.group()
            shown = names.setdefault(fold(word), f"<outside {len(names) + 1}>") if self.is_foreign(word) else word
            found += [shown] if not found or found[-1] != shown or shown == word else []
        return " ".join(found)

    def is_foreign(self, token: str) -> bool:
        """Whether a token may be anybody's but the person's or the model's own."""
        parts = _WORD.findall(fold(token))
        if all(part in self.own for part in parts):
            return False
        bare = token.strip(".,:;!?\"'`()[]{}<>*_\u201c\u201d")
        value = read_value(bare)
        if not _LETTERS.fullmatch(bare) or value is None or value.kind != "words":
            return True
        strange = [part for part in parts if part not in self.own and len(part) > _PLAIN]
        return self.holds_run(fold(bare)) or any(part in self.theirs or self.holds_run(part) for part in strange)

    def holds_run(self, word: str) -> bool:
        """Whether a stretch of a word stands in what others said."""
        return any(word[at : at + _RUN] in self.text for at in range(len(word) - _RUN + 1))


def list_ways(text: str) -> Iterator[str]:
    """Yield a JSON text itself, the texts in it, and each of these without the escapes of a text within it."""
    yield text
    with suppress(InvalidJson):
        for inner in find_strings(strict_json.parse(text, max_bytes=4 * len(text) + 1)):
            yield inner
            yield _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", inner)


def fold(text: str) -> str:
    """Return a text as words are compared."""
    return unicodedata.normalize("NFKC", text).casefold()


class PrefetchedResult(Struct, frozen=True):
    """What an early read showed, the event of its own judgement, and how its resources stood then."""

    judged: int
    survey: Survey
    result: ToolResult

    @property
    def is_checkable(self) -> bool:
        """Whether a survey would show that something else is to be seen now."""
        resources = self.survey.resources
        return bool(resources) and all(resource.hash or not resource.exists for resource in resources)


class PrefetchedResults(dict[tuple[int, str], PrefetchedResult]):
    """What was read early in this process, by the response it was read for and the digest of the call.

    A process that ends forgets it: the call is then read again.
    """

    def forget_uncheckable(self) -> None:
        """Forget what no survey could check."""
        for key in [key for key, found in self.items() if not found.is_checkable]:
            del self[key]


class CallRunner(Protocol):
    """Of one session: runs calls by their permits, and keeps, applies or throws away what a sandbox changed."""

    async def execute(
        self,
        permit: Permit,
        facts: CallFacts,
        actor: Actor = "model",
        *,
        early: bool = False,
        prefetched: PrefetchedResult | None = None,
    ) -> ToolResult | CallNotStarted:
        """Run a call and record that; return its result, or why it was not started. Raises NoPermit without leave."""

    async def survey_changes(self, ended: OpenSandbox, found: SandboxedChanges, command: CallFacts) -> Survey:
        """Return the survey of what a sandbox changed; `command` is how the call itself was judged."""

    async def apply(
        self, permit: Permit, facts: CallFacts, ended: OpenSandbox, found: SandboxedChanges
    ) -> ToolResult | CallNotStarted:
        """Put into the workspace what a sandbox changed and record that; raises NoPermit without leave."""

    def find_changes(self, ended: SandboxEnded) -> SandboxedChanges | None:
        """Return what a program changed in its sandbox, None where that is gone."""

    async def discard(self, found: SandboxedChanges) -> None:
        """Throw away what a sandbox holds."""

    def format_changes(self, found: SandboxedChanges) -> str:
        """Return the difference a sandbox would make, as the model is shown it."""
