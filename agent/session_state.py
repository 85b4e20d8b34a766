"""The state of a session: a fold over its events, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from foregate.agent import criteria
from foregate.agent.context.conversation import Conversation
from foregate.agent.context.cut import line
from foregate.agent.program import Program, Result
from foregate.agent.task_state import WHY, OpenNeed, OpenTurn, TaskState, step_name
from foregate.agent.transcript import message_of
from foregate.evidence.atoms import AtomTable
from foregate.evidence.ledger import Ledger, changes_of, records_of
from foregate.schemas import codec
from foregate.schemas.decision import Decision
from foregate.schemas.event import GENESIS, Event
from foregate.schemas.evidence_record import EvidenceKind, Origin
from foregate.schemas.grant import Grant
from foregate.schemas.judgement import Judgement
from foregate.schemas.message import Message
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.need import Answer, Need, Voided
from foregate.schemas.plan import PlanInForce
from foregate.schemas.ruling import Standing
from foregate.schemas.strict_json import Json
from foregate.schemas.turn import Refusal, Said

REFUSALS = ("approval_denied", "approval_required", "critique_rejected", "plan_rejected")
"""Codes by which a call was refused, so that it stays refused, unasked, until it or its evidence changes."""

NO_CLAIM = ("unknown_tool", "invalid_arguments", "text_only_turn_side_effecting_tool_drift", "not_run_dry_run")
"""Codes of changes that were no real attempt, so that an answer after them needs no line about them."""


_UNKNOWN = "has an unknown outcome"
_UNPLANNED = "was not done (plan_required)"


class SessionState:
    """Everything the loop knows. `apply` takes events in order; replaying a log rebuilds the same state."""

    def __init__(self) -> None:
        self.session = ""
        self.seq, self.hash = 0, GENESIS
        self.ended = False
        self.started: Mapping[str, Json] = {}
        self.policy_hash = self.catalogue_hash = self.prompts_hash = ""
        self.conversation = Conversation()
        self.ledger = Ledger()
        self.atoms = AtomTable()
        self.grants: list[Grant] = []
        self.auto = self.dry_run = False
        self.mode, self.dialect = "direct", "native"
        self.task: TaskState | None = None
        self.tasks = 0
        self.open: OpenTurn | None = None
        self.program: Program | None = None
        self.permits: dict[tuple[int, str], str] = {}
        self.in_flight: dict[str, Event] = {}
        self.parked: dict[str, Event] = {}
        self.uses: dict[str, tuple[int, ...]] = {}
        self.spent = dict.fromkeys(("model_calls", "tool_calls", "tokens", "cost"), 0)

    def apply(self, event: Event) -> None:
        """Take in one event."""
        self.seq, self.hash, self.policy_hash = event.seq, event.hash, event.policy
        self.ended = event.kind == "session_ended"
        call = event.body.get("call", "")
        answered = self.asked(call)
        handler = getattr(self, f"_{event.kind}", None)
        if handler is not None:
            handler(event, event.body)
        message = message_of(event, answered)
        if message is not None:
            self.conversation.add(message, by_user=event.kind == "user_message")
        if answered and event.kind in ("tool_finished", "call_answered", "outcome_unknown"):
            self._close(call, event)

    def asked(self, call: str) -> bool:
        """Whether a call is one of the response in hand that has no answer yet."""
        mine = self.open is not None and call in self.open.unanswered
        return mine or (self.program is not None and call in self.program.unanswered)

    @property
    def messages(self) -> list[Message]:
        """The conversation as the model gets it."""
        return self.conversation.messages

    def still_open(self) -> list[str]:
        """Return a line for each failure, hold and unknown outcome of a change that nothing has settled since."""
        found: dict[tuple[str, str], str] = {}
        for event in self.parked.values():
            found[event.body["tool"], event.body.get("target", "")] = f"{_UNKNOWN}: {event.body['reason']}"
        if self.task is not None:
            found.update({key: f"{what}: {self.task.why[key]}" for key, what in self.task.trouble.items()})
        return [line(f"open: `{' '.join(key).strip()}` {what}", 2 * WHY) for key, what in found.items()]

    def _context_compressed(self, event: Event, body: Mapping[str, Json]) -> None:
        self.conversation.compress(body)

    def _close(self, call: str, event: Event) -> None:
        if self.open is not None and call in self.open.unanswered:
            self.open.close(call, event)
            if not self.open.unanswered:
                self.open = None
        if self.program is not None:
            self.program.answer(call, Result.of(event))
            if not self.program.unanswered:
                self.program = None

    def _session_started(self, event: Event, body: Mapping[str, Json]) -> None:
        self.session, self.started = event.session, body
        self.catalogue_hash, self.prompts_hash = body["catalogue_hash"], body["prompts_hash"]
        self.dialect = body.get("dialect", self.dialect)

    def _catalog_changed(self, event: Event, body: Mapping[str, Json]) -> None:
        self.catalogue_hash = body["catalogue_hash"]

    def _policy_changed(self, event: Event, body: Mapping[str, Json]) -> None:
        self.auto, self.dry_run = body.get("auto", self.auto), body.get("dry_run", self.dry_run)
        self.mode, self.dialect = body.get("mode", self.mode), body.get("dialect", self.dialect)
        if self.task is not None and body.get("mode") == "direct":
            self.task.wants_plan = False

    def _task_started(self, event: Event, body: Mapping[str, Json]) -> None:
        self.tasks = body["task"]
        self.task = TaskState(self.tasks, body["depth"], event.time)
        self.task.wants_plan = body.get("plan", False)
        self.task.refusals.extend(codec.load(Refusal, refusal) for refusal in body.get("refusals", ()))
        self.permits.clear()
        self.uses.clear()

    def _user_message(self, event: Event, body: Mapping[str, Json]) -> None:
        assert self.task is not None
        task = self.task
        task.messages.append(Said(event.seq, body["text"], event.actor))
        self.atoms.hear(body["text"], Origin.USER if event.actor == "user" else Origin.NOBODY, event.seq)
        task.after_turn = ("", "")
        if task.paused:
            task.slots_answered.extend(slot for slot in task.slots_asked if slot not in task.slots_answered)
            task.narrated = max(task.narrated, len(task.question))
            task.paused, task.since, task.question = "", event.time, ""

    def _model_response(self, event: Event, body: Mapping[str, Json]) -> None:
        response = ModelResponse.from_json(body)
        assert self.task is not None
        if "continues" in body:
            self._continued(event, response, body["continues"]["places"])
            return
        task, usage = self.task, response.usage
        task.count(model_calls="places" not in body, tokens=usage.input_tokens + usage.output_tokens, cost=usage.cost)
        task.narrated = max(task.narrated, len(response.text.strip()))
        task.words_only = False
        if not response.calls:
            task.empty_responses += not response.text.strip()
        self.program = Program.read(event.seq, body["program"]) if "program" in body else None
        if response.calls or self.program is None:
            self.open = OpenTurn.of(event.seq, response)
        self.uses.clear()

    def _continued(self, event: Event, response: ModelResponse, places: Sequence[int]) -> None:
        """Take in a further stage: results were put into its calls, and what they said is what their tools said."""
        assert self.program is not None
        for place, call in zip(places, response.calls, strict=True):
            for text, result in self.program.borrowed(place) if not call.defect else ():
                self.atoms.hear(text, result.origin, result.seq, content=result.told, whole=True)
        self.program.staged.update(places)
        self.open = OpenTurn.of(event.seq, response, self.program.seq)
        self.uses.clear()

    def _turn_judged(self, event: Event, body: Mapping[str, Json]) -> None:
        judgement = Judgement.from_json(body["judgement"])
        turn, task = body["turn"], self.task
        assert task is not None
        for verdict in judgement.verdicts:
            if verdict.standing is Standing.ALLOW:
                self.permits[event.seq, verdict.call] = verdict.digest
        if turn.get("actor", "model") == "postlude" and not judgement.verdicts:
            self._postlude_judged(task, judgement, body)
        if turn.get("actor", "model") != "model":
            return
        task.count(turns=0 if turn.get("cause") else 1)
        task.stuck = body.get("stuck", "")
        fingerprints: Mapping[str, str] = body["fingerprints"]
        for decision in judgement.decisions:
            self._count_fired(task, decision)
        for verdict in judgement.verdicts:
            fingerprint = fingerprints.get(verdict.call, "")
            if verdict.standing is not Standing.ALLOW:
                key = (verdict.digest, verdict.ruling.code, fingerprint)
                task.holds[key] = task.holds.get(key, 0) + 1
                task.wants_plan = task.wants_plan or verdict.ruling.code == "plan_required"
            if verdict.ruling.code in REFUSALS:
                task.refusals.append(
                    Refusal(
                        verdict.digest,
                        fingerprint,
                        verdict.gate,
                        verdict.ruling.code,
                        verdict.ruling.message,
                        event.seq,
                    )
                )
        if judgement.plan is not None:
            task.plan = replace(judgement.plan, seq=event.seq)
        self.uses.update(judgement.uses)
        for grant in judgement.grants:
            (self.grants if grant.until == "session" else task.grants).append(replace(grant, seq=event.seq))
        if judgement.consequence is not None:
            if judgement.consequence.kind == "ask_user":
                task.question = judgement.consequence.question
                task.slots_asked.extend(judgement.consequence.slots)
            else:
                task.words_only = True
                task.words_only_task = task.words_only_task or judgement.consequence.lasts == "task"
        if self.open is not None:
            self.open.judged, self.open.judgement = event.seq, judgement
            self.open.survey_hash = body["survey_hash"]
            self.open.dry_run = turn.get("dry_run", False)

    def _postlude_judged(self, task: TaskState, judgement: Judgement, body: Mapping[str, Json]) -> None:
        task.count(verification_rounds=1)
        for decision in judgement.decisions:
            task.verdict = decision.code, decision.summary
            if decision.code == "verification_pending":
                task.fired["postlude"] = task.fired.get("postlude", 0) + 1
                self.open = None

    @staticmethod
    def _count_fired(task: TaskState, decision: Decision) -> None:
        if any(ruling.standing is not Standing.ALLOW for ruling in decision.rulings) or decision.consequence:
            counts = task.shadow_fired if decision.mode == "shadow" else task.fired
            counts[decision.gate] = counts.get(decision.gate, 0) + 1

    def _need_raised(self, event: Event, body: Mapping[str, Json]) -> None:
        need = codec.load(Need, body["need"])
        if self.open is not None:
            self.open.need = OpenNeed(event.seq, need, body["survey_hash"], event.policy)
        if need.who == "person" and self.task is not None:
            self.task.active, self.task.paused = self.task.elapsed(event.time), "awaiting_approval"

    def _need_answered(self, event: Event, body: Mapping[str, Json]) -> None:
        assert self.task is not None
        answer = replace(codec.load(Answer, body["answer"]), seq=event.seq)
        if answer.who != "person":
            usage = body.get("usage", {})
            self.task.count(
                safety_calls=body.get("model_calls", 1),
                safety_rounds=1 if answer.who == "critic" else 0,
                tokens=usage.get("input_tokens", 0) + usage.get("output_tokens", 0),
                cost=usage.get("cost", 0),
            )
        if self.task.paused:
            self.task.paused, self.task.since = "", event.time
        if self.open is not None:
            self.open.need = None
            self.open.answers.append(answer)
        if answer.gate == "loop" and answer.value is not None:
            self.task.after_turn = (answer.value["choice"], answer.value.get("text", ""))
        for grant in body.get("grants", ()):
            self.task.grants.append(replace(codec.load(Grant, grant), seq=event.seq))

    def void(self, answers: list[Answer], reason: str) -> None:
        """Take answers that no longer fit out of the open turn; the next `turn_judged` records them as voided."""
        assert self.open is not None
        for answer in answers:
            self.open.answers.remove(answer)
            self.open.voided.append(Voided(answer.seq, answer.gate, reason))

    def _tool_started(self, event: Event, body: Mapping[str, Json]) -> None:
        assert self.task is not None
        permit = body["permit"]
        self.permits.pop((permit["judged"], permit["call"]), None)
        self.in_flight[body["call"]] = event
        task = self.task
        task.count(tool_calls="look" not in body)  # what was seen early ran then
        if not body.get("early"):
            task.runs[permit["digest"]] = task.runs.get(permit["digest"], 0) + 1
        if self.open is not None:
            self.open.started[body["call"]] = event.seq
        if task.plan is not None and (used := self.uses.get(body["call"])):
            items = tuple(
                replace(item, used=item.used + used.count(index)) if index in used else item
                for index, item in enumerate(task.plan.items)
            )
            task.plan = replace(task.plan, items=items)

    def _tool_finished(self, event: Event, body: Mapping[str, Json]) -> None:
        assert self.task is not None
        task = self.task
        started = self.in_flight.pop(body["call"], None)
        if body.get("early"):
            return  # the model has not seen it: it counts from the call that is answered with it
        side_effect = started is not None and started.body["class"] != "pure"
        records, changes = records_of(body.get("evidence", ())), changes_of(body.get("changes", ()))
        if changes or any(self._new(record.resource, record.hash) for record in records):
            mine = task.runs.get(started.body["permit"]["digest"], 0) if started else 0
            task.runs.clear()
            if started is not None and not changes and not side_effect:
                task.runs[started.body["permit"]["digest"]] = mine
        self.ledger.note(event.seq, records, changes, may_have_changed=side_effect and not changes)
        content = bool(records) and all(record.kind is EvidenceKind.FILE_READ for record in records)
        self.atoms.hear(body["content"], Origin(body.get("origin", "workspace")), event.seq, content=content)
        if changes or side_effect:
            task.last_change = event.seq
        for criterion in task.plan.criteria if task.plan else ():
            if (result := criteria.observed(criterion, body)) is not None:
                task.criteria[criteria.key(criterion)] = (event.seq, result)
        if body.get("used"):
            task.count(**body["used"])
        task.finished(body, side_effect)
        for change in changes:
            task.changed.add(change.resource)
            if self.open is not None:
                self.open.own_changes[change.resource] = change.after
        if side_effect and body["ok"]:
            task.count(changes=1)
        if side_effect and started is not None and (body["ok"] or changes or not started.body["before"]):
            task.touched += 1
        task.used["changed_resources"] = len(task.changed)
        if side_effect and not body["ok"] and self.open is not None:
            self.open.not_made(body["call"])

    def _new(self, resource: object, hash: str) -> bool:  # noqa: A002
        return not any(seen.hash == hash for seen in self.ledger.seen(resource))  # type: ignore[arg-type]

    def _call_answered(self, event: Event, body: Mapping[str, Json]) -> None:
        assert self.task is not None
        self.in_flight.pop(body["call"], None)
        if body.get("change") and self.asked(body["call"]):
            if self.open is not None:
                self.open.not_made(body["call"])
            if body["code"] not in NO_CLAIM:
                self.task.went_wrong(body, f"was not done ({body['code']})", body["message"])

    def _outcome_unknown(self, event: Event, body: Mapping[str, Json]) -> None:
        assert self.task is not None
        self.in_flight.pop(body["call"], None)
        self.parked[body["call"]] = event
        self.task.touched += 1
        self.task.went_wrong(body, _UNKNOWN, body["reason"])
        if self.open is not None:
            self.open.not_made(body["call"])

    def _outcome_resolved(self, event: Event, body: Mapping[str, Json]) -> None:
        self.parked.pop(body["call"], None)
        done, changes = body["outcome"] == "done", changes_of(body.get("changes", ()))
        records = records_of(body.get("evidence", ()))
        self.ledger.note(event.seq, records, changes, may_have_changed=done and not changes)
        if self.task is None:
            return
        tool, target = body["tool"], body["target"]
        if done:
            self.task.settled(tool, target)
            self.task.last_change = event.seq
            self.task.changed.update(change.resource for change in changes)
        elif (tool, target) in self.task.trouble:
            self.task.trouble[tool, target] = "was not done"

    def _effect_undone(self, event: Event, body: Mapping[str, Json]) -> None:
        self.ledger.note(event.seq, records_of(body.get("evidence", ())), changes_of(body.get("changes", ())))

    def _plan_proposed(self, event: Event, body: Mapping[str, Json]) -> None:
        if self.task is not None:
            self.task.proposed_plan, self.task.running_plan, self.task.wants_plan = body["digest"], "", False

    def _plan_confirmed(self, event: Event, body: Mapping[str, Json]) -> None:
        if self.task is None:
            return
        self.task.running_plan, self.task.proposed_plan, self.task.during = body["digest"], "", ""
        self.task.trouble = {key: what for key, what in self.task.trouble.items() if what != _UNPLANNED}
        if "plan" in body:
            self.task.plan = replace(codec.load(PlanInForce, body["plan"]), seq=event.seq)

    def _plan_step_changed(self, event: Event, body: Mapping[str, Json]) -> None:
        task = self.task
        if task is None:
            return
        if body["status"] == "running":
            task.during = step_name(body["step"])
            if task.paused:
                task.paused, task.since = "", event.time
        elif task.during == step_name(body["step"]):
            task.during = ""

    def _task_paused(self, event: Event, body: Mapping[str, Json]) -> None:
        assert self.task is not None
        self.task.active = self.task.elapsed(event.time)
        self.task.paused = body["reason"]
        if body["reason"] == "needs_input":
            self.task.question = body["question"]

    def _task_ended(self, event: Event, body: Mapping[str, Json]) -> None:
        for name in self.spent:
            self.spent[name] += body.get(name, 0)
        self.task = self.open = self.program = None
        self.permits.clear()
