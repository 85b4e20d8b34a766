"""How the rehearsal model makes a call: what it says with it, and how it follows what the gates answer.

Its work is a generator that yields moves (one response each) and is sent the exchange that came of each. Asked
again, the model runs the same generator over the conversation so far: nothing is kept between two requests.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from foregate.agent.models.rehearsal.conversation import CallAnswer, Exchange
from foregate.schemas.tool_call import ToolCall

T = TypeVar("T")

REPEATED = re.compile(
    "narration_required|missing_pre_execution_evidence|stale_evidence|plan_unavailable|critique_(unavailable|invalid)"
    "|not_asked_now|not_run_(after_change_not_made|too_many|truncated|cancelled)"
)
"""Codes after which the same call is sent again; after any other it is not, and what the code said is reported."""

REPEATS = 2
"""How often one call is sent again for one code."""


@dataclass(frozen=True, slots=True)
class Move:
    """One response: words and calls. Without calls it is an answer."""

    text: str
    calls: tuple[ToolCall, ...] = ()


Play = Generator[Move, Exchange, T]
"""A piece of work: yields moves, is sent exchanges, returns what came of it."""


class WordsWanted(Exception):
    """The drift gate said that words are wanted; the work stops and the answer is given in words."""


class AskedBack(Exception):
    """The person is asked what is meant; the work stops until they answer."""


@dataclass(slots=True)
class RehearsalStage:
    """What one run of the work knows: the tools offered (None: not told), and whether it stumbles on purpose.

    `intent` says what was understood and comes with the first call (of a model that stumbles: once it was told to).
    `seen` collects what every call came to; `dry` tells that a change was judged and, in a dry run, not made.
    """

    tools: frozenset[str] | None
    intent: str
    stumbles: bool = False
    told: bool = False
    seen: list[tuple[ToolCall, CallAnswer]] = field(default_factory=list)
    dry: bool = False

    def words(self, text: str) -> str:
        """Return what to say with a call."""
        if self.told:
            return text
        if self.stumbles:
            return ""
        self.told = True
        return f"{self.intent} {text}".strip()

    def offers(self, wanted: ToolCall) -> bool:
        """Whether a call's tool is offered, as far as this is known."""
        return self.tools is None or wanted.name in self.tools


def attempt(stage: RehearsalStage, text: str, *calls: ToolCall) -> Play[list[CallAnswer]]:
    """Make calls, follow what the gates answer, and return what came of each in the end.

    Raises WordsWanted and AskedBack where a gate turns the whole request.
    """
    answers = [
        CallAnswer()
        if stage.stumbles or stage.offers(wanted)
        else CallAnswer(code="no_tool", message=f"the tool `{wanted.name}` is not offered here")
        for wanted in calls
    ]
    pending = [index for index, answer in enumerate(answers) if not answer.code]
    sent: dict[tuple[int, str], int] = {}
    saying = stage.words(text)
    while pending:
        exchange = yield Move(saying, tuple(calls[index] for index in pending))
        again: list[int] = []
        for index, answer in zip(pending, exchange.answers, strict=True):
            if answer.code == "not_run_dry_run":
                stage.dry, answer = True, CallAnswer(ok=True, output="(a dry run: not done)")
            answers[index] = answer
            times = sent[index, answer.code] = sent.get((index, answer.code), 0) + 1
            if REPEATED.fullmatch(answer.code) and times <= REPEATS:
                again.append(index)
        stage.seen.extend((calls[index], answers[index]) for index in pending)
        turn_back(exchange.answers)
        held = [answers[index] for index in again]
        yield from perform_remedies(stage, held)
        saying, pending = describe_retry(stage, held), again
    return answers


def turn_back(answers: Sequence[CallAnswer]) -> None:
    """Raise where a gate turned the whole request: words are wanted, or the person is asked."""
    codes = {answer.code for answer in answers}
    if "text_only_turn_side_effecting_tool_drift" in codes:
        raise WordsWanted
    if "uncertainty_clarification" in codes:
        raise AskedBack


def perform_remedies(stage: RehearsalStage, held: Sequence[CallAnswer]) -> Play[None]:
    """Perform the remedies that nobody performed yet, where their tools are offered."""
    remedies = {answer.remedy.digest: answer.remedy for answer in held if answer.remedy and stage.offers(answer.remedy)}
    if remedies:
        exchange = yield Move(stage.words("I look first."), tuple(remedies.values()))
        turn_back(exchange.answers)


def describe_retry(stage: RehearsalStage, held: Sequence[CallAnswer]) -> str:
    """Return what to say when calls are sent again."""
    codes = {answer.code for answer in held}
    if "narration_required" in codes:
        stage.told = True
        return f"I should have said so first. {stage.intent}"
    seen = {"missing_pre_execution_evidence", "stale_evidence"} & codes
    return stage.words("I have looked at it now, and repeat the change." if seen else "I send it again.")
