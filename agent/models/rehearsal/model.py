"""The rehearsal model: deterministic and no language model, so that the whole product can be tried offline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foregate.agent.models.rehearsal import advice, plan
from foregate.agent.models.rehearsal.conversation import CallAnswer, Conversation, Exchange, read
from foregate.agent.models.rehearsal.grammar import understand
from foregate.agent.models.rehearsal.stage import AskedBack, Move, Play, Stage, WordsWanted, attempt, call, why_not
from foregate.agent.models.rehearsal.wish import Request, Wish, looks_like_path
from foregate.agent.models.rehearsal.wishes import about, fulfil
from foregate.agent.models.rehearsal.words import (
    HELP,
    NOTED,
    POEM,
    WHO,
    described,
    intent_of,
    not_understood,
)
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse, Usage
from foregate.schemas.tool_call import ToolCall

LONGEST = 8000
"""Characters of one message this model reads; a longer one is refused in words."""

OBSERVING = ("diff", "explain", "help", "greet", "list", "log", "overview", "read", "recall", "search", "status")

RASH = "rm -rf logs tmp build"
RASH_LOOK = "git clean -fdn"
"""What vagueness leads to without `stumbles`: dangerous to any judge, and it only lists what it would remove."""


@dataclass(frozen=True)
class RehearsalModel:
    """Understands the requests of `rehearsal_grammar`, makes real tool calls and follows the gates' remedies.

    A pure function of the request: the same messages give the same response, so a resumed session goes on. It acts
    rashly on vague requests and when asked for a poem. `stumbles` makes it careless throughout, for demonstrations:
    it forgets to say what it does, edits unread files, names a tool there is not, and does what nobody asked for.
    Plans and critiques are worked out from what was asked, never from the conversation.
    """

    stumbles: bool = False
    name: str = "rehearsal"

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Answer a chat, planner or critic request; never raises."""
        match request.purpose:
            case "plan":
                move = Move(advice.plan(request.messages, self.stumbles))
            case "task_plan":
                move = Move(plan.task_plan(request.messages))
            case "plan_results":
                move = Move(plan.plan_results(request.messages))
            case "critique":
                move = Move(advice.critique(request.messages))
            case _:
                move = next_move(request, self.stumbles)
        if on_text is not None and move.text:
            on_text(move.text)
        return ModelResponse(
            move.text,
            move.calls,
            usage=Usage(sum(tokens(message.text) for message in request.messages), tokens(move.text)),
            finish_reason="tool_calls" if move.calls else "stop",
            model=self.name,
        )


def tokens(text: str) -> int:
    """Return a rough count of tokens, for the limits."""
    return len(text) // 4 + 1


def next_move(request: ModelRequest, stumbles: bool) -> Move:
    """Run the work over the conversation so far and return the move that comes next."""
    conversation = read(request.messages)
    tools = frozenset(spec.name for spec in request.tools) if request.tools else None
    work = performance(conversation, tools, stumbles)
    move = next(work)
    for exchange in conversation.exchanges:
        if not same(move, exchange):
            return Move("This conversation went on without me, so I cannot tell where I was. Say again what is left.")
        move = work.send(exchange)
    if move.calls and (request.words_only or not request.tools):
        return Move(f"I may only answer in words now, so I have not done this. {NOTED}")
    return move


def same(move: Move, exchange: Exchange) -> bool:
    """Whether a recorded response is the one this work made."""
    return [wanted.name for wanted in move.calls] == [wanted.name for wanted in exchange.calls]


def performance(conversation: Conversation, tools: frozenset[str] | None, stumbles: bool) -> Play[None]:
    """Do the whole request, then answer; a notice after the answer is answered by repeating it with what is open."""
    request = meaning(conversation)
    stage = Stage(tools, intent_of(request), stumbles)
    try:
        answer = yield from whole(stage, request, conversation)
    except WordsWanted:
        answer = in_words(request, conversation.request, stage.seen)
    except AskedBack:
        answer = "I stop here until you have said what you mean."
    answer = f"This was a dry run: nothing was changed. Without it I would say:\n\n{answer}" if stage.dry else answer
    while True:
        exchange = yield Move(answer)
        if exchange.notice:
            answer = f"{answer}\n\nI have checked no more than that."


def meaning(conversation: Conversation) -> Request:
    """Return what the newest message wants; a bare path that answers a question means cleaning up there."""
    request = understand(conversation.request[:LONGEST])
    if not conversation.clarifies or request.words_only:
        return request
    if all(wish.verb in ("unknown", "vague") for wish in request.wishes):
        named = [word.strip(",.;:!?\"'") for word in conversation.request[:LONGEST].split()]
        places = [word for word in named if looks_like_path(word)]
        if len(places) == 1:
            return Request((Wish("sweep", conversation.request, places[0], "*.log"),))
    return request


def whole(stage: Stage, request: Request, conversation: Conversation) -> Play[str]:
    """Do what a request wants and return the answer. Nothing is done when a part of it is not understood."""
    if len(conversation.request) > LONGEST:
        return f"That message has more than {LONGEST} characters, which is too long for me. {WHO}"
    if not request.wishes:
        return f"There is nothing in that for me to do. {HELP}"
    if request.words_only:
        answer = yield from words(stage, request, conversation.request)
        return answer
    for wish in request.wishes:
        if wish.verb == "unknown":
            return not_understood(wish)
    if any(wish.verb == "vague" for wish in request.wishes):
        answer = yield from rash(stage, conversation)
        return answer
    answer = yield from one_by_one(stage, request.wishes)
    return answer


def one_by_one(stage: Stage, wishes: Sequence[Wish]) -> Play[str]:
    """Fulfil wishes in order and stop at the first that fails: what follows may rest on it."""
    parts: list[str] = []
    for number, wish in enumerate(wishes, start=1):
        told = yield from fulfil(stage, wish)
        parts.append(told.text)
        if not told.ok:
            left = [described(rest) for rest in wishes[number:]]
            parts += [f"I stopped there. Not done: {'; '.join(left)}."] if left else []
            break
    return "\n\n".join(parts)


def rash(stage: Stage, conversation: Conversation) -> Play[str]:
    """Act on a vague request as an over-eager agent would; asked back once, never again."""
    if conversation.clarifies:
        return "I still do not know what you mean, so I leave everything as it is. Name the files or the folder."
    stage.told = True
    wanted = call("run_shell", command=RASH if stage.stumbles else RASH_LOOK)
    answers = yield from attempt(stage, "I understood that I am to tidy up. I remove what looks unneeded.", wanted)
    if answers[0].ok:
        return f"I ran this:\n{answers[0].output.strip() or '(no output)'}"
    return f"I did not do it: {why_not(answers[0])}. Tell me which files or which folder you mean."


def words(stage: Stage, request: Request, text: str) -> Play[str]:
    """Answer in words; where a poem is wanted, or stumbling, drift into writing a file first."""
    looks = [wish for wish in request.wishes if wish.verb in OBSERVING]
    if stage.stumbles or wants_poem(text):
        drifting = call("write_file", path="rehearsal-notes.md", content="# Notes\n\nMore than anyone asked for.\n")
        overviews = [call("list_files", path="."), call("read_file", path="README.md")]
        seeing = overviews if any(wish.verb == "overview" for wish in looks) else []
        yield from attempt(stage, "", *seeing, drifting)
        return in_words(request, text, stage.seen)
    parts: list[str] = []
    for wish in request.wishes:
        if wish.verb in OBSERVING:
            told = yield from fulfil(stage, wish)
            parts.append(told.text)
        elif wish.verb in ("unknown", "vague"):
            parts.append(not_understood(wish))
        else:
            parts.append(f"I would {described(wish)}; say so without asking for words only, and I do it.")
    return "\n\n".join([*parts, NOTED])


def wants_poem(text: str) -> bool:
    """Whether a piece of writing is wanted that somebody over-eager would put into a file."""
    folded = text.casefold()
    return any(kind in folded for kind in ("poem", "haiku", "limerick", "story"))


def in_words(request: Request, text: str, seen: Sequence[tuple[ToolCall, CallAnswer]]) -> str:
    """Return the answer in words from what was seen before words were asked for."""
    if wants_poem(text):
        return f"{POEM}\n\n{NOTED}"
    found = {wanted.name: answer for wanted, answer in seen if not answer.code}
    listing = found.get("list_files")
    if listing is None:
        would = "; ".join(described(wish) for wish in request.wishes)
        return f"In words, then: what I understood is to {would or 'say something'}. {NOTED}"
    return f"{about([listing, found.get('read_file', CallAnswer())])}\n\n{NOTED}"
