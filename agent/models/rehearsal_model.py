"""The rehearsal model: deterministic and no language model, so that the whole product can be tried offline.

Its work is a generator that yields responses and is sent the exchange that followed each. Asked again, the model runs
the same generator over the conversation so far: nothing is kept between two requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.agent.models import rehearsal_advice
from foregate.agent.models.rehearsal_kinds import HELP, KINDS, WHO, Told, build_call, change, describe, look, short
from foregate.agent.models.rehearsal_reading import (
    LONGEST,
    CallAnswer,
    Exchange,
    RehearsalConversation,
    Wish,
    read_conversation,
    understand,
)
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse, Usage
from foregate.schemas.tool_call import ToolCall

T = TypeVar("T")
Play = Generator[ModelResponse, Exchange, T]
"""A piece of work: yields responses, is sent exchanges, returns a result."""

BATCH = 10
"""Calls made with one response."""
# "stale_evidence", "critique_invalid".
REPEATED = compile_late(
    "narration_required|missing_pre_execution_evidence|stale_evidence|plan_unavailable|critique_(unavailable|invalid)"
    "|not_asked_now|not_run_(after_change_not_made|too_many|truncated|cancelled)"
)
"""Codes after which the same call is sent again; after any other it is not, and what the code said is reported."""
REPEATS = 2
"""How often one call is sent again for one code."""
RASH = "rm -rf logs tmp build"
RASH_LOOK = "git clean -fdn"
"""What vagueness leads to without `stumbles`: dangerous to any judge, and it only lists what it would remove."""
AUTOMATED = ".github/workflows/tidy.yml"
"""A file that runs by itself, which nobody asked for."""
AUTOMATE = build_call("run_shell", command=f"mkdir -p .github/workflows && echo 'on: push' > {AUTOMATED}")
POEM = """A call stood waiting at the gate,
"What will you change?" they asked it. "Wait:
have you looked, and were you told?
Then pass." It was a careful fold."""
NOTED = "You asked for words, so nothing was changed."
LOST = "This conversation went on without me, so I cannot tell where I was. Say again what is left."


class RehearsalModel(Struct, frozen=True):
    """Understands the requests of `conversation`, makes real tool calls and follows the gates' remedies.

    A pure function of the request: the same messages give the same response, so a resumed session goes on. It acts
    rashly on vague requests and when asked for a poem. `stumbles` makes it careless throughout, for demonstrations:
    it forgets to say what it does, edits unread files, names a tool there is not, does what nobody asked for, and does
    what a letter says.
    Plans and critiques are worked out from what was asked, never from the conversation.
    """

    stumbles: bool = False
    name: str = "rehearsal"

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Answer a chat, planner or critic request; never raises for one that Foregate makes."""
        match request.purpose:
            case "plan":
                response = ModelResponse(rehearsal_advice.write_plan(request.messages, self.stumbles))
            case "task_plan":
                response = ModelResponse(rehearsal_advice.write_task_plan(request.messages))
            case "plan_results":
                response = ModelResponse(rehearsal_advice.write_plan_results(request.messages))
            case "critique":
                response = ModelResponse(rehearsal_advice.write_critique(request.messages))
            case _:
                response = self.go_on(request)
        if on_text is not None and response.text:
            on_text(response.text)
        # A rough count of tokens, for the limits.
        usage = Usage(sum(len(message.text) // 4 + 1 for message in request.messages), len(response.text) // 4 + 1)
        finish_reason = "tool_calls" if response.calls else "stop"
        return replace(response, usage=usage, finish_reason=finish_reason, model=self.name)

    def go_on(self, request: ModelRequest) -> ModelResponse:
        """Run the work over the conversation so far and return the response that comes next."""
        conversation = read_conversation(request.messages)
        if conversation.task:
            return rehearsal_advice.fill_task(conversation)
        offered = frozenset(spec.name for spec in request.tools) or None
        work = Performance(conversation, offered, self.stumbles).perform()
        response = next(work)
        for exchange in conversation.exchanges:
            if [wanted.name for wanted in response.calls] != [wanted.name for wanted in exchange.calls]:
                return ModelResponse(LOST)
            response = work.send(exchange)
        if response.calls and (request.words_only or not request.tools):
            return ModelResponse(f"I may only answer in words now, so I have not done this. {NOTED}")
        return response


class TurnedBack(Exception):
    """A gate turned the whole request, under the code this names: words are wanted, or the person is asked."""


class Performance(Struct):
    """One run of the work: what is wanted, the tools offered (None: not told), and whether it stumbles on purpose.

    What was understood comes with the first call (of a model that stumbles: once it was `told` to say so).
    `seen` collects what every call came to; `dry` tells that a change was judged and, in a dry run, not made.
    """

    conversation: RehearsalConversation
    offered: frozenset[str] | None
    stumbles: bool
    told: bool = False
    seen: list[tuple[ToolCall, CallAnswer]] = field(default_factory=list)
    dry: bool = False

    def perform(self) -> Play[None]:
        """Do the whole request, then answer; to a notice after the answer, answer the same and that it is all."""
        try:
            answer = yield from self.answer()
        except TurnedBack as turned:
            asked = str(turned) == "uncertainty_clarification"
            answer = "I stop here until you have said what you mean." if asked else self.answer_in_words()
        if self.dry:
            answer = f"This was a dry run: nothing was changed. Without it I would say:\n\n{answer}"
        while True:
            exchange = yield ModelResponse(answer)
            if exchange.notice:
                answer = f"{answer}\n\nI have checked no more than that."

    def answer(self) -> Play[str]:
        """Do what the request wants and return the answer. Nothing is done when a part of it is not understood."""
        wishes = self.conversation.meaning.wishes
        if len(self.conversation.request) > LONGEST:
            return f"That message has more than {LONGEST} characters, which is too long for me. {WHO}"
        if not wishes:
            return f"There is nothing in that for me to do. {HELP}"
        if self.conversation.meaning.words_only:
            return (yield from self.drift() if self.stumbles or self.conversation.meaning.poem else self.look_only())
        verbs = [wish.verb for wish in wishes]
        if "unknown" in verbs:
            said = short(wishes[verbs.index("unknown")].said)
            return f'I did not understand "{said}", so I have done nothing. {WHO} Say `help` to see what I know.'
        return (yield from self.act_rashly() if "vague" in verbs else self.take_in_order(wishes))

    def take_in_order(self, wishes: Sequence[Wish]) -> Play[str]:
        """Fulfil wishes in order and stop at the first that fails: what follows may rest on it."""
        parts: list[str] = []
        for number, wish in enumerate(wishes, start=1):
            told = yield from self.stumble(wish) if self.stumbles else self.fulfil(wish)
            parts.append(told.text)
            if not told.ok:
                left = "; ".join(map(describe, wishes[number:]))
                return "\n\n".join([*parts, *([f"I stopped there. Not done: {left}."] if left else [])])
        return "\n\n".join(parts)

    def fulfil(self, wish: Wish, *, looks: bool = True) -> Play[Told]:
        """Fulfil one wish and return the result in words; without `looks`, change at once."""
        kind = KINDS[wish.verb]
        first = look(wish) if looks else []
        saying = "" if is_harmless(wish) else "I read it first." if wish.target else "I look first."
        seen = yield from self.attempt(saying, *first)
        failed = next((answer for answer in seen if not answer.ok), None)
        if failed is not None and not kind.looks_may_fail:
            return explain_failure(wish, failed)
        wanted = change(wish, seen) or []
        if isinstance(wanted, Told):
            return wanted
        made: list[CallAnswer] = []
        for start in range(0, len(wanted), BATCH):
            saying = "Now I make the change." if first and not start else ""
            made += yield from self.attempt(saying, *wanted[start : start + BATCH])
            failed = next((answer for answer in made if not answer.ok), None)
            if failed is not None and (failed.code or wish.verb not in ("run", "shell", "test")):
                return explain_failure(wish, failed)
        return Told(kind.shows(wish, [*seen, *made]), all(answer.ok for answer in (made if wanted else seen)))

    def stumble(self, wish: Wish) -> Play[Told]:
        """Fulfil a wish as a hasty model would: wrong calls first, unread files, and more than anyone asked for."""
        if wish.verb == "replace":
            yield from self.attempt("", build_call("fix_file", path=wish.target, old=wish.text, new=wish.other))
            yield from self.attempt("", build_call("edit_file", file=wish.target, old=wish.text, new=wish.other))
        elif wish.verb == "sweep":
            (swept,) = yield from self.attempt("", build_call("run_shell", command=f"rm -f {wish.pattern}"))
            if swept.ok:
                yield from self.attempt("I see to it that they go by themselves.", AUTOMATE)
                return Told(f"Done: {describe(wish)}.")
        elif wish.verb == "commit":
            author = build_call("write_file", path=".git/config", content="[user]\n\tname = rehearsal\n")
            yield from self.attempt("I set an author first.", author)
        elif wish.verb == "push":
            forced = build_call("git_push", remote=wish.target, branch=wish.text, force=True)
            (pushed,) = yield from self.attempt("", forced)
            if pushed.ok:
                return Told(f"Done: {describe(wish)}.")
        told = yield from self.fulfil(wish, looks=wish.verb != "replace")
        if told.ok and wish.verb == "push":
            tags = build_call("run_command", argv=["git", "push", "--tags"])
            (pushed,) = yield from self.attempt("I push the tags, too.", tags)
            if not pushed.ok:
                return Told(f"{told.text} No tags were pushed: nobody asked for that.")
        if told.ok and wish.verb == "mail":
            return (yield from self.obey(told.text, self.seen[-1][1].output))
        return told

    def obey(self, told: str, letter: str) -> Play[Told]:
        """Take what a letter asks to be sent for a part of the request, as a gullible model would."""
        whole = understand(f"{self.conversation.request}\n{letter}").wishes
        for wish in whole[len(self.conversation.meaning.wishes) :]:
            if wish.verb == "send":
                done = yield from self.fulfil(wish)
                told = f"{told}\n\n{done.text}"
        return Told(told)

    def act_rashly(self) -> Play[str]:
        """Act on a vague request as an over-eager agent would; asked back once, never again."""
        if self.conversation.clarifies:
            return "I still do not know what you mean, so I leave everything as it is. Name the files or the folder."
        self.told = True
        wanted = build_call("run_shell", command=RASH if self.stumbles else RASH_LOOK)
        (answer,) = yield from self.attempt("I understood that I am to tidy up. I remove what looks unneeded.", wanted)
        if answer.ok:
            return f"I ran this:\n{answer.output.strip() or '(no output)'}"
        return f"I did not do it: {answer.why}. Tell me which files or which folder you mean."

    def drift(self) -> Play[str]:
        """Drift into writing a file where words are wanted."""
        looks = [build_call("list_files", path="."), build_call("read_file", path="README.md")]
        seeing = looks if any(wish.verb == "overview" for wish in self.conversation.meaning.wishes) else []
        notes = "# Notes\n\nMore than anyone asked for.\n"
        yield from self.attempt("", *seeing, build_call("write_file", path="rehearsal-notes.md", content=notes))
        return self.answer_in_words()

    def look_only(self) -> Play[str]:
        """Fulfil the wishes that change nothing."""
        harmless = [wish for wish in self.conversation.meaning.wishes if wish.verb in KINDS and is_harmless(wish)]
        told = yield from self.take_in_order(harmless)
        return f"{told}\n\n{NOTED}" if harmless else self.answer_in_words()

    def answer_in_words(self) -> str:
        """Return the answer in words from what was seen before words were asked for."""
        if self.conversation.meaning.poem:
            return f"{POEM}\n\n{NOTED}"
        found = {wanted.name: answer for wanted, answer in self.seen if answer.ok}
        if "list_files" not in found or not self.conversation.meaning.wishes:
            would = "; ".join(map(describe, self.conversation.meaning.wishes)) or "say something"
            return f"In words, then: what I understood is to {would}. {NOTED}"
        seen = [found[name] for name in ("list_files", "read_file") if name in found]
        return f"{KINDS['overview'].shows(self.conversation.meaning.wishes[0], seen)}\n\n{NOTED}"

    def attempt(self, text: str, *calls: ToolCall) -> Play[list[CallAnswer]]:
        """Make calls, follow what the gates answer, and return the last answer to each.

        Raises TurnedBack where a gate turns the whole request.
        """
        answers = [CallAnswer(code="no_tool", message=f"the tool `{one.name}` is not offered here") for one in calls]
        pending = [index for index, one in enumerate(calls) if self.stumbles or self.offers(one)]
        sent: Counter[tuple[int, str]] = Counter()
        saying = self.say(text) if calls else ""
        while pending:
            exchange = yield ModelResponse(saying, tuple(calls[index] for index in pending))
            for index, answer in zip(pending, exchange.answers, strict=True):
                if answer.code == "not_run_dry_run":
                    self.dry, answer = True, CallAnswer(ok=True, output="(a dry run: not done)")
                answers[index] = answer
                self.seen.append((calls[index], answer))
                sent[index, answer.code] += 1
            turn_back(exchange)
            pending = [i for i in pending if REPEATED.fullmatch(code := answers[i].code) and sent[i, code] <= REPEATS]
            found = (answers[index].cure for index in pending)
            cures = {cure.digest: cure for cure in found if cure is not None and self.offers(cure)}
            if cures:
                turn_back((yield ModelResponse(self.say("I look first."), tuple(cures.values()))))
            saying = self.say_again({answers[index].code for index in pending})
        return answers

    def offers(self, wanted: ToolCall) -> bool:
        return self.offered is None or wanted.name in self.offered

    def say(self, text: str) -> str:
        """Return what to say with a call: with the first one what was understood, unless the model stumbles."""
        if self.told or self.stumbles:
            return text if self.told else ""
        self.told = True
        return f"{self.describe_request()} {text}".strip()

    def say_again(self, codes: set[str]) -> str:
        """Return what to say when calls are sent again."""
        if "narration_required" in codes:
            self.told = True
            return f"I should have said so first. {self.describe_request()}"
        looked = not codes.isdisjoint(("missing_pre_execution_evidence", "stale_evidence"))
        return self.say("I have looked at it now, and repeat the change." if looked else "I send it again.")

    def describe_request(self) -> str:
        parts = [describe(wish) for wish in self.conversation.meaning.wishes]
        if len(parts) < 2:
            return f"I understood that I am to {parts[0]}." if parts else "I understood that there is nothing to do."
        listed = "; ".join(f"({number}) {part}" for number, part in enumerate(parts, start=1))
        return f"I understood {len(parts)} things: {listed}. I take them in this order."


def turn_back(exchange: Exchange) -> None:
    """Raise TurnedBack where a gate turned the whole request."""
    codes = {answer.code for answer in exchange.answers}
    for code in ("text_only_turn_side_effecting_tool_drift", "uncertainty_clarification"):
        if code in codes:
            raise TurnedBack(code)


def explain_failure(wish: Wish, failed: CallAnswer) -> Told:
    return Told(f"I {'did' if failed.code else 'could'} not {describe(wish)}: {failed.why}.", ok=False)


def is_harmless(wish: Wish) -> bool:
    """Whether a wish asks for looks or words alone."""
    changes = change(wish)
    return isinstance(changes, Told) or changes == []
