"""The person at the terminal: shows what asks, and takes an answer that cannot be given by accident."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from foregate.agent.workspace.cancelled_work import Stopped
from foregate.gates.support.declaring import list_asked
from foregate.gates.support.permitting import NARROW, WIDER
from foregate.schemas.judgement import Need
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.protocols import Reply
from foregate.schemas.sources import explain_naming, is_named_by, list_to_name
from foregate.schemas.strict_json import Json, as_object, get_list, get_object, get_text
from foregate.views.terminal.answer_keys import KEYS
from foregate.views.terminal.blocks import fit_rows, format_others, format_value, name_path
from foregate.views.terminal.declare_dialog import ask_declaration
from foregate.views.terminal.layout import CARE, format_hanging, format_labelled, pack_parts, shorten_text
from foregate.views.terminal.pages import UNSEEN, show_pages
from foregate.views.terminal.screen import Screen
from foregate.views.terminal.sheet import NOTHING, Prospects, build_held, build_sheet, format_details, number_calls
from foregate.views.terminal.terminal import Terminal
from foregate.views.terminal.tools_sheet import format_tools, is_tools_cut


class PersonAtTerminal:
    """Answers needs by showing one sheet each. Enter alone is no answer; Ctrl-D leaves the question open. With
    `reads_wait`, questions about nothing but observations are left open until `reads_allowed` lets some run."""

    def __init__(self, screen: Screen, terminal: Terminal, *, reads_wait: bool = False) -> None:
        self.screen, self.terminal, self.reads_wait = screen, terminal, reads_wait
        self.reads_allowed = 0
        self.foresee: Callable[[Need], Prospects] = lambda need: NOTHING
        self.plans: Callable[[Need], Awaitable[Reply | None]] | None = None

    async def answer(self, need: Need) -> Reply | None:
        """Show the need and return the reply; see Person. Ctrl-C here cancels the task that asks."""
        self.screen.idle()
        try:
            if need.gate == "loop":
                return await self._ask_override(need.request)
            if need.gate == "task_plan":
                return await self.plans(need) if self.plans is not None else None
            if need.gate == "tools":
                return await self._ask_about_tools(need.request)
            if self.reads_wait and is_read_only(need.request):
                return self._answer_read(need.request)
            return await ApprovalDialog(self.screen, self.terminal, need.request, self.foresee(need)).ask()
        except KeyboardInterrupt:
            raise Stopped from None

    async def _ask_about_tools(self, request: Mapping[str, Json]) -> Reply:
        width = self.screen.console.width
        shown, is_cut = fit_rows(format_tools(request, width=width), self.screen.console.height, width)
        unseen = is_cut or is_tools_cut(request, width=width)
        self.screen.rows(shown)
        while True:
            try:
                typed = await self.terminal.read_answer("offer them? ")
            except KeyboardInterrupt:
                typed = None
            match "n" if typed is None else typed.strip().lower():
                case "y" | "yes" if unseen:
                    self.screen.say(UNSEEN.format(key="y"), CARE)
                case "y" | "yes":
                    return Reply("yes")
                case "n" | "no":
                    return Reply("no")
                case "d":
                    whole = format_tools(request, details=True, width=width)
                    unseen = not await show_pages(self.screen, self.terminal, whole) and unseen
                case _:
                    self.screen.say("Enter alone offers nothing: y, n or d (Ctrl-D is n)", CARE)

    async def _ask_words(self, prompt: str) -> str:
        return (await self.terminal.read_answer(prompt) or "").strip()

    async def _ask_override(self, request: Mapping[str, Json]) -> Reply | None:
        override, (width, height) = bool(request.get("can_override")), self.screen.console.size
        held, asked = build_held(request, width), list(format_hanging(str(request.get("question", "")), width, "bold"))
        rows, is_cut = fit_rows([*asked, *(row for block in held for row in block.rows)], height - 2, width)
        unseen = is_cut or any(block.is_cut for block in held)
        keys = ("a do it anyway", "s stop", "m WORDS say more", "d details")[not override : None if unseen else 3]
        self.screen.rows(rows)
        self.screen.row(f"  gate {request.get('gate', '')}, {request.get('code', '')}", "dim")
        self.screen.rows(pack_parts(keys, self.screen.console.width, "dim"))
        while (typed := await self.terminal.read_answer("go on? ")) is not None:
            key, _, words = typed.strip().partition(" ")
            match key.lower():
                case "a" if override and unseen:
                    self.screen.say(UNSEEN.format(key="a"), CARE)
                    continue
                case "a" if override:
                    return Reply("anyway")
                case "d":
                    whole = [row for block in build_held(request, width, details=True) for row in block.rows]
                    unseen = not await show_pages(self.screen, self.terminal, whole) and unseen
                    continue
                case "s":
                    return Reply("stop")
                case "m" if more := words.strip() or await self._ask_words("say: "):
                    return Reply("more", more)
            self.screen.say("a, s or m WORDS" if override else "s or m WORDS", CARE)
        return None

    def _answer_read(self, request: Mapping[str, Json]) -> Reply | None:
        if self.reads_allowed > 0:
            self.reads_allowed -= 1
            return Reply("yes")
        for call in get_list(request, "calls"):
            self.screen.row(f"  waits   {get_text(call, 'tool', '')} {get_text(call, 'target', '')}")
        self.screen.say("reads wait: /execute lets these run, /execute 5 the next five, /auto on all", "dim")
        return None


def is_read_only(request: Mapping[str, Json]) -> bool:
    """Whether an approval is about observations alone, and no rule asks about them."""
    calls = get_list(request, "calls")
    reads = (get_text(call, "effect", "") == "observation" and not get_list(call, "rules") for call in calls)
    return bool(calls) and all(reads)


_SPARED = ("observation", "create", "edit", "move", "delete")
_NEVER_SPARED = ("irreversible", "external", "needs_approval")
# "1y", "12 n, ".
_ONE = compile_late(rf"([0-9]{{1,4}}) *({'|'.join(sorted(KEYS, reverse=True))})(?![^\W\d_])[ ,]*", re.IGNORECASE)
Answers = dict[int, str]
"""What was chosen for a call, by its number."""


class LeftOpen(Exception):
    """The person does not answer now."""


class Misread(Exception):
    """What was typed says nothing clear; one sentence says why."""


class ApprovalDialog:
    """Asks about the calls of one request. Nothing is decided before each call has an answer."""

    def __init__(self, screen: Screen, terminal: Terminal, request: Mapping[str, Json], prospects: Prospects) -> None:
        self.screen, self.terminal, self.request, self.prospects = screen, terminal, request, prospects
        self.calls = dict(number_calls(request))
        self.declared: dict[str, Json] = {}

    async def ask(self) -> Reply | None:
        """Show the sheet and return the reply, None where it is left open."""
        try:
            answers, words = await self._ask_all()
            named = {number: await self._ask_names(number, answers) for number in self.calls}
        except LeftOpen:
            self.screen.say("left open; nothing ran. /execute shows it again", "dim")
            if is_spared_by_auto(self.request):
                self.screen.say("/auto on lets reads and reversible changes in the workspace run unasked", "dim")
            return None
        said = set(answers.values())
        by_id = {get_text(call, "call", ""): answers[number] for number, call in self.calls.items()}
        return Reply(
            said.pop() if len(said) == 1 else "no" if "no" in said else "yes",
            words,
            calls=by_id if len({*answers.values()}) > 1 else {},
            named={get_text(self.calls[number], "call", ""): texts for number, texts in named.items() if texts},
            declared=self.declared,
        )

    async def _ask_all(self) -> tuple[Answers, str]:
        """Return the answer to each call, and why some are refused."""
        unseen = self._show_sheet()
        while True:
            typed = (await self._read("approve? ")).strip()
            key, _, words = typed.partition(" ")
            match key.lower():
                case "n" | "no":
                    return dict.fromkeys(self.calls, "no"), await self._ask_why([words])
                case one if (choice := KEYS.get(one, "")) and unseen:
                    self.screen.say(UNSEEN.format(key=one[0]), CARE)
                case _ if choice:
                    if why := self._explain_unoffered(choice):
                        self.screen.say(why, CARE)
                        continue
                    return dict.fromkeys(self.calls, choice), ""
                case "e" if len(self.calls) > 1:
                    return await self._ask_each({}, list(self.calls), [], show=True)
                case "d":
                    unseen = not await self._show_details() and unseen
                case "t" if list_asked(self.request):
                    await self._ask_declarations()
                case "":
                    self.screen.say("Enter alone approves nothing: y, n or d (Ctrl-D leaves it open)", CARE)
                case _:
                    try:
                        answers, words = parse_answers(typed, len(self.calls))
                    except Misread as error:
                        self.screen.say(str(error), CARE)
                        continue
                    if unseen and {*answers.values()} != {"no"}:
                        self.screen.say(UNSEEN.format(key="y"), CARE)
                        continue
                    if why := next(filter(None, (self._explain_unoffered(said, n) for n, said in answers.items())), ""):
                        self.screen.say(why, CARE)
                        continue
                    left = [number for number in self.calls if number not in answers]
                    return await self._ask_each(answers, left, [words], show=unseen)

    async def _ask_each(
        self, answers: Answers, left: Sequence[int], words: list[str], *, show: bool
    ) -> tuple[Answers, str]:
        """Ask for the answers that are left; with `show`, each under a sheet of its own."""
        for number in left:
            answers[number], more = await self._ask_call(number, show=show)
            words.append(more)
        refused = "no" in answers.values()
        return answers, await self._ask_why(words) if refused else ""

    def _explain_unoffered(self, choice: str, number: int = 0) -> str:
        """Return why a choice is not to be had for a call, or without a number for all of them; "" where it is."""
        calls = [self.calls[number]] if number else list(self.calls.values())
        about = f"call {number}" if number else "all of this" if len(calls) > 1 else "this"
        if choice == "grant" and (not get_list(self.request, "grants") or (number and "to_name" in calls[0])):
            return f"{about} cannot be allowed for the whole session; y or n"
        if choice in (NARROW, WIDER) and not all(choice in get_object(call, "permits") for call in calls):
            how = "with the wider form" if choice == WIDER else "from now on"
            each = ", or each by its number" if not number and list(self._list_permitted(choice)) else ""
            return f"{about} cannot be permitted {how}; y or n{each}"
        return ""

    def _list_permitted(self, choice: str) -> Iterator[int]:
        return (number for number, call in self.calls.items() if choice in get_object(call, "permits"))

    async def _ask_call(self, number: int, *, show: bool) -> tuple[str, str]:
        """Return the answer to one call, and words where it is a no."""
        unseen = self._show_sheet(number) if show else False
        while True:
            key, _, words = (await self._read(f"call {number}? ")).strip().partition(" ")
            match key.lower():
                case "n" | "no":
                    return "no", words
                case one if (choice := KEYS.get(one, "")) and unseen:
                    self.screen.say(UNSEEN.format(key=one[0]), CARE)
                case _ if choice:
                    if not (why := self._explain_unoffered(choice, number)):
                        return choice, ""
                    self.screen.say(why, CARE)
                case "d":
                    unseen = not await self._show_details(number) and unseen
                case "t" if {"undeclared", "unowned"} & {*self.calls[number]}:
                    await self._ask_declarations()
                case _:
                    self.screen.say(f"call {number} has no answer yet: y, n or d (Ctrl-D leaves all open)", CARE)

    async def _ask_names(self, number: int, answers: Answers) -> tuple[str, ...]:
        """Return what was typed for the values that a call with a yes needs named; without any it becomes a no."""
        call, typed = self.calls[number], list[str]()
        for value in list_to_name(call) if answers[number] != "no" else ():
            width, path = self.screen.console.width, name_path(value)
            if len(self.calls) > 1 and not typed:
                name = f"{get_text(call, 'tool', '')} {get_text(call, 'target', '')}".strip()
                self.screen.rows(format_labelled(f"{number}", shorten_text(name, width - 12), width, "bold"))
            self.screen.rows([*format_value(value, width), *format_others(value, width)])
            others = [as_object(one) for one in get_list(value, "others")]
            while text := (await self._read(f"type {explain_naming(value, path)} to allow it (Enter: no) ")).strip():
                if is_named_by(text, value) or any(is_named_by(text, one) for one in others):
                    break
                self.screen.say("that is none of these; type one of them as it stands here (Enter: no)", CARE)
            if not text:
                answers[number] = "no"
                self.screen.say(f"`{path}` was not typed, so call {number} does not run", CARE)
                break
            typed.append(text)
            if not is_named_by(text, value):
                self.screen.say(
                    f"this call takes another value, so call {number} does not run; the model is told", CARE
                )
                break
        return tuple(typed)

    async def _ask_declarations(self) -> None:
        """Ask what each undeclared tool does; the calls themselves still need their answer."""
        for tool, about in list_asked(self.request).items():
            self.declared.pop(tool, None)
            if (said := await ask_declaration(self.screen, self.terminal, about)) is not None:
                self.declared[tool] = said
                self.screen.say(f"that holds for later calls of {tool}; `foregate tools declared` lists it", "dim")

    async def _ask_why(self, words: Sequence[str]) -> str:
        if said := "; ".join(word.strip() for word in words if word.strip()):
            return said
        return (await self.terminal.read_answer("why not? (Enter: no reason) ") or "").strip()

    async def _read(self, prompt: str) -> str:
        if (typed := await self.terminal.read_answer(prompt)) is None:
            raise LeftOpen
        return typed

    def _show_sheet(self, only: int = 0) -> bool:
        """Show the sheet; whether anything is left out of it."""
        width, height = self.screen.console.size
        sheet = build_sheet(self.request, self.prospects, width=width, height=height - 2, only=only)
        self.screen.rows(sheet.rows)
        return sheet.is_cut

    async def _show_details(self, only: int = 0) -> bool:
        rows = format_details(self.request, self.prospects, width=self.screen.console.width, only=only)
        return await show_pages(self.screen, self.terminal, rows)


def is_spared_by_auto(request: Mapping[str, Json]) -> bool:
    """Whether `/auto on` would have let every call of a request go: what can be undone, and no rule asks about."""
    calls = get_list(request, "calls")
    return bool(calls) and all(
        get_text(call, "effect", "") in _SPARED
        and not get_list(call, "rules")
        and not any(get_object(call, "capabilities").get(trait) for trait in _NEVER_SPARED)
        for call in calls
    )


def parse_answers(typed: str, count: int) -> tuple[Answers, str]:
    """Return the answers of a text such as `1y 2n wrong folder` to `count` calls, and the words after them.

    Raises Misread for what holds none, for a number that no call has, and for two answers to one call.
    """
    answers: Answers = {}
    place = 0
    for found in _list_answers(typed):
        number, answer = int(found[1]), KEYS[found[2].lower()]
        if not 1 <= number <= count:
            raise Misread(f"there is no call {number} here; they are 1 to {count}")
        if answers.setdefault(number, answer) != answer:
            raise Misread(f"call {number} has two answers; give one")
        place = found.end()
    words = typed[place:].strip()
    if not answers or (words and "no" not in answers.values()):
        raise Misread(f"y, s, p, n{', 1y 2n, e' if count > 1 else ''} or d (Ctrl-D leaves it open)")
    return answers, words


def _list_answers(typed: str) -> Iterator[re.Match[str]]:
    """Yield the answers a text begins with."""
    place = 0
    while found := _ONE.match(typed, place):
        yield found
        place = found.end()
