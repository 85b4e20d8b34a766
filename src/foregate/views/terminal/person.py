"""The person at the terminal: shows what asks, and takes an answer that cannot be given by accident."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from foregate.agent.session.stopping import Stopped
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import Json, get_list, get_text
from foregate.views.terminal.approval_dialog import ApprovalDialog
from foregate.views.terminal.blocks import fit_rows
from foregate.views.terminal.layout import CARE, format_hanging, pack_parts
from foregate.views.terminal.pages import UNSEEN, show_pages
from foregate.views.terminal.screen import Screen
from foregate.views.terminal.sheet import NOTHING, Prospects, build_held
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
