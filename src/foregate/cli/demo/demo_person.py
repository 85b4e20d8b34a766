"""The person of the demonstration: shows what asks, and its own answer, so that nothing is approved unseen."""

from __future__ import annotations

from foregate.cli.terminal.layout import NAME
from foregate.cli.terminal.screen import Screen
from foregate.cli.terminal.sheet import format_approval
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply


class DemoPerson:
    """Says yes once to what asks for approval, and stops what is held again and again."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen

    async def answer(self, need: Need) -> Reply | None:
        """Print the sheet and the answer; see Person."""
        self.screen.idle()
        if need.gate == "loop":
            self.screen.row(str(need.request.get("question", "")), "bold")
            self.screen.say("  the demonstration answers: stop", f"bold {NAME}")
            return Reply("stop", by="demo")
        for row in format_approval(need.request, width=self.screen.console.width):
            self.screen.say(row)
        self.screen.say("  the demonstration answers: y", f"bold {NAME}")
        return Reply("yes", by="demo")
