"""The rows of a session's page: a fold over its events, each call with all rulings on it and its outcome."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from foregate.evidence.state.conversation import CAME
from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import (
    CallAnswered,
    EffectUndone,
    OutcomeResolved,
    OutcomeUnknown,
    SandboxEnded,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from foregate.schemas.judgement import Standing
from foregate.schemas.model_response import RecordedCall
from foregate.schemas.plan import PlanInForce
from foregate.schemas.sandbox import describe_counts
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import PlanConfirmed
from foregate.schemas.tool_call import Survey, ToolCall
from foregate.views.pages import asides
from foregate.views.pages.changes import KeptBytes, count_unread, read_diffs
from foregate.views.pages.judged import build_answer_rulings, build_judged, index_rulings
from foregate.views.pages.texts import NOTHING, WHO, YES, Quote, Tone, count_seconds, cut_text, fold_text, name_call
from foregate.views.pages.views import AnswerView, CallView, JudgedView, OutcomeView, Responding, RowView, Saying
from foregate.views.terminal.sheet import list_arguments

CALLS = 400
"""Calls of one response a page shows."""
_ARGUMENTS = 24
_ANSWERED: Mapping[str, tuple[str, Tone]] = {
    "hold": ("held", "hold"),
    "deny": ("denied", "deny"),
    "ask": ("not allowed", "deny"),
    "not_run": ("not run", "quiet"),
    "allow": ("not run", "quiet"),
}


class RowBuilder:
    """Builds the rows of a page from events in order. Mutated by `add`; `rows` are those so far."""

    def __init__(self, kept: KeptBytes) -> None:
        self.rows: list[RowView] = []
        self._kept = kept
        self._calls: dict[str, CallView] = {}
        self._parsed: dict[str, Mapping[str, Json] | None] = {}
        self._asked: tuple[Event, NeedRaised] | None = None
        self._plan: PlanInForce | None = None
        self._unread: list[tuple[CallView, int, ToolFinished]] = []

    def add(self, event: Event) -> None:
        """Take in an event."""
        match event.body:
            case UserMessage(text=text):
                who = WHO.get(event.actor, event.actor)
                quoted = fold_text(text, f"{event.seq}/body/text", shown=1200, lines=30)
                self.rows.append(Saying(seq=event.seq, time=event.time, who=who, text=quoted, by=asides.name_by(event)))
            case ModelResponded() as body:
                self._add_response(event, body)
            case TurnJudged() as body:
                self._add_judgement(event, body)
            case NeedRaised() as body:
                self._asked = event, body
            case NeedAnswered() as body:
                self._add_answer(event, body)
            case ToolStarted() as body:
                call = self._find_call(event, body.call, body.tool, body.target)
                call.effect, call.confinement = body.effect.value, body.confinement
                if call.tone not in ("hold", "deny"):
                    call.word, call.tone = "running", "ask"
            case SandboxEnded() as body:
                self._add_sandbox(event, body)
            case ToolFinished() as body:
                self._add_end(event, body)
            case CallAnswered() as body:
                self._add_refusal(event, body)
            case OutcomeUnknown() as body:
                why = fold_text(body.reason, f"{event.seq}/body/reason")
                self._settle(event, body, "unknown", "fail", "nobody can say whether it took effect", why)
            case OutcomeResolved() as body:
                done = body.outcome == "done"
                says = f"its outcome is known now: it {CAME[body.outcome]}"
                self._settle(event, body, "ran" if done else "not done", "allow" if done else "quiet", says)
            case EffectUndone() as body:
                self._add_undo(event, body)
            case body:
                if isinstance(body, PlanConfirmed) and body.plan is not None:
                    self._plan = body.plan
                self.rows += asides.build_asides(event)

    def finish(self) -> list[RowView]:
        """Return the rows, with what is still asked among them."""
        if self._asked is not None:
            self._attach_answer(build_answer(*self._asked, None, None), self._asked[1])
            self._asked = None
        # What a later call read may be what this one wrote.
        for call, place, body in self._unread:
            files = read_diffs(body.changes, self._parsed.get(body.call), self._kept)
            call.outcomes[place] = replace(call.outcomes[place], files=tuple(files))
        self._unread.clear()
        return self.rows

    def _add_response(self, event: Event, body: ModelResponded) -> None:
        if body.continues is None or not isinstance(self._last, Responding):
            seq = event.seq
            row = Responding(
                seq=seq,
                time=event.time,
                who="model" if event.actor == "model" else "Foregate",
                text=fold_text(body.text, f"{seq}/body/text", shown=1600, lines=40),
                reasoning=fold_text(body.reasoning, f"{seq}/body/reasoning", shown=0),
                model=cut_text(body.model, 80),
                tokens=body.usage.input_tokens + body.usage.output_tokens,
                notes=[cut_text(note) for note in body.notes[:8]],
                continued=body.continues is not None,
            )
            if body.refused:
                row.notes.append(cut_text(f"its calls were left out: {body.refused}"))
            self.rows.append(row)
        else:
            row = self._last
        waiting = body.program.calls if body.program is not None else ()
        for place, recorded in enumerate(body.calls):
            self._add_call(row, event.seq, recorded, "model", f"calls/{place}")
        for place, recorded in enumerate(waiting):
            if recorded.id not in self._calls:
                self._add_call(row, event.seq, recorded, "model", f"program/calls/{place}")

    @property
    def _last(self) -> RowView | None:
        return self.rows[-1] if self.rows else None

    def _add_call(self, row: Responding, seq: int, recorded: RecordedCall, actor: str, at: str = "") -> CallView:
        known = self._calls.get(recorded.id)
        if known is not None and any(known is call for call in row.calls):
            # A stage of a response whose calls were listed whole before.
            return known
        read = recorded.call
        place = len(row.calls) + row.left_out + 1
        call = CallView(
            seq=seq,
            place=place,
            mark=cut_text(recorded.id, 24),
            anchor=name_call(row.seq, place),
            tool=cut_text(recorded.name, 128),
            arguments=list(quote_arguments(recorded, read, f"{seq}/body/{at}" if at else "")) if place <= CALLS else [],
            defect=cut_text(recorded.defect),
            actor=actor,
        )
        if recorded.sent is not None:
            call.sent = fold_text(f"{recorded.sent.name} {recorded.sent.arguments}", shown=200, lines=3)
        if actor != "model":
            call.said.append(fold_text(WHO.get(actor, actor)))
        self._calls[recorded.id] = call
        self._parsed[recorded.id] = read.arguments
        if len(row.calls) < CALLS:
            row.calls.append(call)
        else:
            row.left_out += 1
        return call

    def _find_call(self, event: Event, call_id: str, tool: str, target: str) -> CallView:
        """Return the call an event is about; of one that began on an earlier page a row of its own."""
        call = self._calls.get(call_id)
        if call is None:
            call = self._add_call(
                self._hold_row(event), event.seq, RecordedCall(id=call_id, name=tool, arguments=""), "model"
            )
            call.arguments.clear()
        if target and not call.target:
            call.target = cut_text(target)
        return call

    def _hold_row(self, event: Event) -> Responding:
        """Return the response in hand, one without words where it is on an earlier page or still to come."""
        for row in reversed(self.rows):
            if isinstance(row, Responding):
                return row
            if isinstance(row, Saying):
                break
        row = Responding(seq=event.seq, time=event.time, continued=True)
        self.rows.append(row)
        return row

    def _add_judgement(self, event: Event, body: TurnJudged) -> None:
        turn = body.turn
        row = self._hold_row(event)
        for recorded in turn.proposed or ():
            if recorded.id not in self._calls:
                self._add_call(row, event.seq, recorded, "early" if body.early else turn.actor)
        surveys = {survey.call: survey for survey in turn.surveys}
        rulings = index_rulings(body.judgement)
        for number, verdict in enumerate(body.judgement.verdicts):
            call = self._find_call(event, verdict.call, "", _find_target(surveys.get(verdict.call)))
            if call.place > CALLS:
                continue
            judged = build_judged(event, body, number, self._plan, rulings)
            call.judged.append(judged)
            call.tone, call.word = judged.tone, judged.word
            if verdict.standing is Standing.ALLOW and judged.stage != "sandbox":
                call.word = "allowed"
        if not body.judgement.verdicts and body.judgement.decisions:
            row.rulings.append(build_answer_rulings(event, body))
        self._plan = body.judgement.plan or body.plan or self._plan

    def _add_answer(self, event: Event, body: NeedAnswered) -> None:
        if self._asked is None:
            return
        asked, raised = self._asked
        self._asked = None
        self._attach_answer(build_answer(asked, raised, event, body), raised)

    def _attach_answer(self, answer: AnswerView, raised: NeedRaised) -> None:
        for number, call_id in enumerate(raised.need.calls):
            call = self._calls.get(call_id)
            if call is None:
                continue
            call.answers.append(answer)
            if not answer.answered and number < CALLS:
                call.tone, call.word = "ask", f"waits for {'a' if answer.who == 'person' else 'the'} {answer.who}"
        if not any(call in self._calls for call in raised.need.calls):
            self.rows.append(asides.note_answer(answer))

    def _add_sandbox(self, event: Event, body: SandboxEnded) -> None:
        call = self._find_call(event, body.call, body.tool, body.target)
        did = describe_counts(body.counts) or "changed nothing"
        says = f"it ran in a sandbox and {did}; nothing of that is in the workspace yet"
        text = fold_text(body.content, f"{event.seq}/body/content", shown=400, lines=8)
        tone: Tone = "quiet" if body.ok else "fail"
        call.outcomes.append(OutcomeView(event.seq, "in a sandbox", tone, says, text, body.duration))

    def _add_end(self, event: Event, body: ToolFinished) -> None:
        call = self._find_call(event, body.call, body.tool, body.target)
        granted = any(one.answered and one.who == "person" and one.tone == "allow" for one in call.answers)
        call.tone, call.word = ("allow", "ran, after a yes" if granted else "ran") if body.ok else ("fail", "failed")
        if call.actor != "model" or body.early:
            call.word = "looked" if body.ok else call.word
        text = fold_text(body.content, f"{event.seq}/body/content", shown=400, lines=8)
        self._kept.remember(body.content, [seen.hash for seen in body.evidence if seen.hash])
        files = read_diffs(body.changes, self._parsed.get(body.call), self._kept)
        if any(not file.lines for file in files):
            self._unread.append((call, len(call.outcomes), body))
        says = cut_text(f"{body.error}, exit code {body.exit_code}" if body.exit_code else body.error)
        ended = OutcomeView(
            event.seq,
            "ran" if body.ok else "failed",
            call.tone,
            says,
            text,
            body.duration,
            tuple(files),
            count_unread(body.changes),
            body.origin.value,
        )
        call.outcomes.append(ended)

    def _add_refusal(self, event: Event, body: CallAnswered) -> None:
        call = self._find_call(event, body.call, body.tool, body.target)
        call.word, call.tone = _ANSWERED.get(body.ruling, ("not run", "quiet"))
        told = call.judged[-1] if call.judged else None
        message = fold_text(body.message, f"{event.seq}/body/message", shown=300, lines=4)
        same = told is not None and (told.words.begin, told.code) == (message.begin, body.code)
        word, code = call.word, cut_text(body.code, 80)
        says = "the model was told the same" if same else f"the model was told ({code})"
        call.outcomes.append(OutcomeView(event.seq, word, call.tone, says, NOTHING if same else message))
        if body.observed is not None:
            seen = body.observed
            shown = fold_text(seen.output, f"{event.seq}/body/observed/output", shown=400, lines=10)
            gave = "it would have changed" if seen.tool == body.tool else f"`{cut_text(seen.tool, 60)}` gave"
            call.outcomes.append(OutcomeView(event.seq, "shown", "quiet", f"to the model: what {gave}", shown))

    def _add_undo(self, event: Event, body: EffectUndone) -> None:
        call = self._find_call(event, body.call, body.tool, "")
        call.word, call.tone = "undone", "quiet"
        steps = fold_text("\n".join(body.steps[:40]))
        call.outcomes.append(OutcomeView(event.seq, "undone", "quiet", "its effect was undone", steps))

    def _settle(
        self,
        event: Event,
        body: OutcomeUnknown | OutcomeResolved,
        word: str,
        tone: Tone,
        says: str,
        text: Quote = NOTHING,
    ) -> None:
        call = self._find_call(event, body.call, body.tool, body.target)
        call.word, call.tone = word, tone
        call.outcomes.append(OutcomeView(event.seq, word, tone, says, text))


def build_answer(asked: Event, raised: NeedRaised, event: Event | None, body: NeedAnswered | None) -> AnswerView:
    """Return a question with its answer, None for none yet."""
    need = raised.need
    if event is None or body is None:
        return AnswerView(asked.seq, need.who, cut_text(need.gate, 40), asked.time, cut_text(need.code, 80))
    answer, value = body.answer, body.answer.value or {}
    said, at = answer.words, f"{event.seq}/body/answer/value/text"
    choice = answer.choice or _read_text(value, "verdict")
    if answer.who != "person":
        key = "summary" if "summary" in value else "goal"
        said, at = _read_text(value, key), f"{event.seq}/body/answer/value/{key}"
        choice = choice or ("a plan" if value else "")
    good = answer.has_yes or choice in (*YES, "accept", "accepted", "a plan")
    return AnswerView(
        seq=asked.seq,
        who=need.who,
        gate=cut_text(need.gate, 40),
        asked=asked.time,
        code=cut_text(need.code, 80),
        answered=event.seq,
        by=cut_text(asides.name_by(event) or _read_text(value, "by"), 120),
        choice=cut_text(choice, 40),
        words=fold_text(said, at, shown=300, lines=4) if said else NOTHING,
        error=cut_text(answer.error),
        seconds=count_seconds(asked.time, event.time),
        elsewhere=body.elsewhere,
        grants=len(body.grants or ()),
        tone="quiet" if not value else "allow" if good else "deny",
    )


def list_judgings(rows: Sequence[RowView]) -> Iterator[tuple[CallView, JudgedView]]:
    """Yield every judging of a call on the rows, in order."""
    for row in rows:
        if isinstance(row, Responding):
            yield from ((call, judged) for call in row.calls for judged in call.judged)


def _find_target(survey: Survey | None) -> str:
    return survey.target if survey is not None else ""


def _read_text(value: Mapping[str, Json], key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def quote_arguments(recorded: RecordedCall, read: ToolCall, at: str) -> Iterator[tuple[str, Quote]]:
    """Yield the arguments of a call by name; as the raw text where they cannot be read."""
    if not recorded.arguments or recorded.arguments == "{}":
        return
    if read.arguments is None:
        yield "arguments", fold_text(recorded.arguments, f"{at}/arguments" if at else "")
        return
    for number, (name, value) in enumerate(list_arguments(recorded.arguments)):
        if number == _ARGUMENTS:
            yield "…", fold_text(f"{len(read.arguments) - _ARGUMENTS} arguments more")
            return
        yield (
            cut_text(name, 80),
            fold_text(value, f"{at}/arguments/{name}" if at and "/" not in name else "", shown=400, lines=8),
        )
