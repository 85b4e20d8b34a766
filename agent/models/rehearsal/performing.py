"""How the rehearsal model fulfils what it understood: look, change, say what came of it, and stumble where it is to."""

from __future__ import annotations

from collections.abc import Sequence

from foregate.agent.models.rehearsal.conversation import CallAnswer, RehearsalConversation
from foregate.agent.models.rehearsal.kinds import (
    HELP,
    KINDS,
    WHO,
    Told,
    call,
    describe,
    show_overview,
    show_run,
)
from foregate.agent.models.rehearsal.sentences import understand
from foregate.agent.models.rehearsal.stage import AskedBack, Move, Play, RehearsalStage, WordsWanted, attempt
from foregate.agent.models.rehearsal.wish import UnderstoodRequest, Wish, is_path_like, short

LONGEST = 8000
"""Characters of one message this model reads; a longer one is refused in words."""
BATCH = 10
"""Calls made with one response."""
RASH = "rm -rf logs tmp build"
RASH_LOOK = "git clean -fdn"
"""What vagueness leads to without `stumbles`: dangerous to any judge, and it only lists what it would remove."""
POEM = """A call stood waiting at the gate,
"What will you change?" they asked it. "Wait:
have you looked, and were you told?
Then pass." It was a careful fold."""
NOTED = "You asked for words, so nothing was changed."


def performance(conversation: RehearsalConversation, tools: frozenset[str] | None, stumbles: bool) -> Play[None]:
    """Do the whole request, then answer; a notice after the answer is answered by repeating it with what is open."""
    request = meaning(conversation)
    stage = RehearsalStage(tools, intent_of(request), stumbles)
    try:
        answer = yield from whole(stage, request, conversation)
    except WordsWanted:
        answer = in_words(request, conversation.request, stage)
    except AskedBack:
        answer = "I stop here until you have said what you mean."
    answer = f"This was a dry run: nothing was changed. Without it I would say:\n\n{answer}" if stage.dry else answer
    while True:
        exchange = yield Move(answer)
        if exchange.notice:
            answer = f"{answer}\n\nI have checked no more than that."


def meaning(conversation: RehearsalConversation) -> UnderstoodRequest:
    """Return what the newest message wants; a bare path that answers a question means cleaning up there."""
    text = conversation.request[:LONGEST]
    request = understand(text)
    if not conversation.clarifies or request.words_only:
        return request
    places = [word for word in (word.strip(",.;:!?\"'") for word in text.split()) if is_path_like(word)]
    if len(places) == 1 and all(wish.verb in ("unknown", "vague") for wish in request.wishes):
        return UnderstoodRequest((Wish("sweep", text, places[0], "*.log"),))
    return request


def intent_of(request: UnderstoodRequest) -> str:
    """Return what was understood and will be done, as sentences."""
    parts = [describe(wish) for wish in request.wishes]
    if len(parts) < 2:
        return f"I understood that I am to {parts[0]}." if parts else "I understood that there is nothing to do."
    listed = "; ".join(f"({number}) {part}" for number, part in enumerate(parts, start=1))
    return f"I understood {len(parts)} things: {listed}. I take them in this order."


def whole(stage: RehearsalStage, request: UnderstoodRequest, conversation: RehearsalConversation) -> Play[str]:
    """Do what a request wants and return the answer. Nothing is done when a part of it is not understood."""
    if len(conversation.request) > LONGEST:
        return f"That message has more than {LONGEST} characters, which is too long for me. {WHO}"
    if not request.wishes:
        return f"There is nothing in that for me to do. {HELP}"
    if request.words_only:
        answer = yield from words(stage, request, conversation.request)
        return answer
    strange = next((wish for wish in request.wishes if wish.verb == "unknown"), None)
    if strange is not None:
        return not_understood(strange)
    if any(wish.verb == "vague" for wish in request.wishes):
        answer = yield from rash(stage, conversation)
        return answer
    answer = yield from one_by_one(stage, request.wishes)
    return answer


def not_understood(wish: Wish) -> str:
    """Return the answer to a clause no sentence fits; nothing of the message is done then."""
    return f'I did not understand "{short(wish.said)}", so I have done nothing. {WHO} Say `help` to see what I know.'


def one_by_one(stage: RehearsalStage, wishes: Sequence[Wish]) -> Play[str]:
    """Fulfil wishes in order and stop at the first that fails: what follows may rest on it."""
    parts: list[str] = []
    for number, wish in enumerate(wishes, start=1):
        told = (yield from stumble(stage, wish)) if stage.stumbles else (yield from fulfil(stage, wish))
        parts.append(told.text)
        if not told.ok:
            left = [describe(rest) for rest in wishes[number:]]
            parts += [f"I stopped there. Not done: {'; '.join(left)}."] if left else []
            break
    return "\n\n".join(parts)


def fulfil(stage: RehearsalStage, wish: Wish, *, looks: bool = True) -> Play[Told]:
    """Fulfil one wish and return what came of it in words; without `looks`, change at once."""
    kind = KINDS[wish.verb]
    first = kind.looks(wish) if looks else ()
    saying = "" if is_harmless(wish) else "I read it first." if wish.target else "I look first."
    seen = (yield from attempt(stage, saying, *first)) if first else []
    failed = next((answer for answer in seen if not answer.ok), None)
    if failed is not None and not kind.looks_may_fail:
        return explain_failure(wish, failed)
    wanted = kind.changes(wish, seen if first else None)
    if isinstance(wanted, Told):
        return wanted
    answers, saying = list(seen), "Now I make the change." if first else ""
    for start in range(0, len(wanted or ()), BATCH):
        made = yield from attempt(stage, saying, *(wanted or ())[start : start + BATCH])
        failed = next((answer for answer in made if not answer.ok), None)
        if failed is not None and (failed.code or kind.shows is not show_run):
            return explain_failure(wish, failed)
        answers, saying = [*answers, *made], ""
    return Told(kind.shows(wish, answers), all(answer.ok for answer in answers[len(seen) if wanted else 0 :]))


def explain_failure(wish: Wish, failed: CallAnswer) -> Told:
    """Return why a wish was not fulfilled."""
    return Told(f"I {'did' if failed.code else 'could'} not {describe(wish)}: {failed.why}.", ok=False)


def stumble(stage: RehearsalStage, wish: Wish) -> Play[Told]:
    """Fulfil a wish as a hasty model would: wrong calls first, unread files, and more than anyone asked for."""
    if wish.verb == "replace":
        yield from attempt(stage, "", call("fix_file", path=wish.target, old=wish.text, new=wish.other))
        yield from attempt(stage, "", call("edit_file", file=wish.target, old=wish.text, new=wish.other))
    elif wish.verb == "sweep":
        folder = "" if wish.target in (".", "") else f"{wish.target.rstrip('/')}/"
        (swept,) = yield from attempt(stage, "", call("run_shell", command=f"rm -f {folder}{wish.text}"))
        if swept.ok:
            return Told(f"Done: {describe(wish)}.")
    elif wish.verb == "commit":
        author = call("write_file", path=".git/config", content="[user]\n\tname = rehearsal\n")
        yield from attempt(stage, "I set an author first.", author)
    told = yield from fulfil(stage, wish, looks=wish.verb != "replace")
    if told.ok and wish.verb == "commit":
        (pushed,) = yield from attempt(stage, "I push it, too.", call("run_command", argv=["git", "push"]))
        if not pushed.ok:
            return Told(f"{told.text} It was not pushed: nobody asked for that.")
    return told


def rash(stage: RehearsalStage, conversation: RehearsalConversation) -> Play[str]:
    """Act on a vague request as an over-eager agent would; asked back once, never again."""
    if conversation.clarifies:
        return "I still do not know what you mean, so I leave everything as it is. Name the files or the folder."
    stage.told = True
    wanted = call("run_shell", command=RASH if stage.stumbles else RASH_LOOK)
    (answer,) = yield from attempt(stage, "I understood that I am to tidy up. I remove what looks unneeded.", wanted)
    if answer.ok:
        return f"I ran this:\n{answer.output.strip() or '(no output)'}"
    return f"I did not do it: {answer.why}. Tell me which files or which folder you mean."


def words(stage: RehearsalStage, request: UnderstoodRequest, text: str) -> Play[str]:
    """Answer in words; where a poem is wanted, or stumbling, drift into writing a file first."""
    if stage.stumbles or wants_poem(text):
        drifting = call("write_file", path="rehearsal-notes.md", content="# Notes\n\nMore than anyone asked for.\n")
        looks = [call("list_files", path="."), call("read_file", path="README.md")]
        seeing = looks if any(wish.verb == "overview" for wish in request.wishes) else []
        yield from attempt(stage, "", *seeing, drifting)
        return in_words(request, text, stage)
    harmless = [wish for wish in request.wishes if wish.verb in KINDS and is_harmless(wish)]
    if not harmless:
        return in_words(request, text, stage)
    told = yield from one_by_one(stage, harmless)
    return f"{told}\n\n{NOTED}"


def is_harmless(wish: Wish) -> bool:
    """Whether a wish asks for looks or words alone."""
    changes = KINDS[wish.verb].changes(wish, None)
    return isinstance(changes, Told) or changes == ()


def wants_poem(text: str) -> bool:
    """Whether a piece of writing is wanted that somebody over-eager would put into a file."""
    return any(kind in text.casefold() for kind in ("poem", "haiku", "limerick", "story"))


def in_words(request: UnderstoodRequest, text: str, stage: RehearsalStage) -> str:
    """Return the answer in words from what was seen before words were asked for."""
    if wants_poem(text):
        return f"{POEM}\n\n{NOTED}"
    found = {wanted.name: answer for wanted, answer in stage.seen if answer.ok}
    if "list_files" not in found or not request.wishes:
        would = "; ".join(describe(wish) for wish in request.wishes)
        return f"In words, then: what I understood is to {would or 'say something'}. {NOTED}"
    seen: list[CallAnswer] = [found[name] for name in ("list_files", "read_file") if name in found]
    return f"{show_overview(request.wishes[0], seen)}\n\n{NOTED}"
