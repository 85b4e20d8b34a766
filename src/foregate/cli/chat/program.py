"""A program at the other end of the chat: it reads events and questions as JSON lines and answers in the same way."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from foregate.cli.chat.utterance import Misheard, Utterance, parse_utterance
from foregate.cli.terminal.diff import diff_lines, format_unified
from foregate.cli.terminal.scripting import format_event_line, to_json_line
from foregate.cli.terminal.terminal import InputLine, Pipe
from foregate.schemas import strict_json
from foregate.schemas.event import Event
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import Json, as_texts

if TYPE_CHECKING:
    from foregate.agent.effects.preview import Preview
    from foregate.agent.session.session import Session


class ChatProgram:
    """Speaks JSON lines. As a Person it prints a question and waits for the one line that answers exactly that."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe, self._out = pipe, sys.stdout
        self.session: Session | None = None

    def print_line(self, value: Json) -> None:
        """Print one line."""
        print(to_json_line(value), file=self._out, flush=True)

    def print_error(self, why: str) -> None:
        """Say in one sentence why nothing came of a line."""
        self.print_line({"error": why})

    def print_event(self, event: Event) -> None:
        """Print an event as it was recorded; a listener of the session."""
        print(format_event_line(event), file=self._out, flush=True)

    async def answer(self, need: Need) -> Reply | None:
        """Ask and return the reply; see Person. Another message, /quit and the end of input leave the question open."""
        asked = strict_json.digest(need.request)
        choices = list_choices(need)
        self.pipe.count_question()
        self.print_line(
            {
                "asks": need.gate,
                "code": need.code,
                "request": asked,
                "answers": choices,
                "expires_at": need.expires_at,
                "sheet": need.request,
                "prospects": self.preview_calls(need),
            }
        )
        while (line := await self.pipe.next_line()) is not None:
            try:
                said = parse_utterance(line.text, need.gate)
                if said is None:
                    continue
                if said.kind == "answer":
                    return build_reply(said, line, choices, asked, self.pipe.questions)
                if said.kind == "message" or said.text == "/quit":
                    self.pipe.put_back(
                        line if said.kind == "command" else InputLine(to_json_line({"message": said.text}))
                    )
                    return None
                raise Misheard(f"a question is open; answer it first: {', '.join(choices)}")
            except Misheard as error:
                self.print_error(str(error))
        return None

    def preview_calls(self, need: Need) -> Mapping[str, Json]:
        """Return what the calls of a sheet would do to the workspace as it is now, by call id."""
        from foregate.agent.effects.preview import preview_calls

        if self.session is None or need.gate != "approval":
            return {}
        return {call: format_preview(prospect) for call, prospect in preview_calls(self.session, need).items()}


def list_choices(need: Need) -> list[str]:
    """Return the words that answer a question; one about a plan names them itself."""
    if need.gate == "task_plan":
        return list(as_texts(need.request["answers"], "answers"))
    if need.gate == "loop":
        return [*(["anyway"] if need.request.get("can_override") else []), "stop", "more"]
    return ["yes", *(["grant"] if need.request.get("grants") else []), "no"]


def build_reply(said: Utterance, line: InputLine, choices: list[str], asked: str, questions: int) -> Reply:
    """Return the reply an answer gives; raise Misheard for one to another question, or to one it cannot have read."""
    if said.request and said.request != asked:
        raise Misheard("this answers another request than the one that is open; nothing was decided")
    if not said.request and line.questions < questions:
        raise Misheard("this answer came before the question was asked; read the question, then answer it")
    if said.choice not in choices:
        raise Misheard(f"`{said.choice[:40]}` is no answer here; answer with {', '.join(choices)}")
    if said.choice in ("more", "edit") and not said.text:
        raise Misheard(f"`{said.choice}` needs a `text`")
    return Reply(said.choice, said.text, by="program")


def format_preview(prospect: Preview) -> Json:
    """Return a prospect as JSON; there are no `changes` where no change of a file is known."""
    return {
        "changes": [
            {
                "path": change.path,
                "new": change.before is None,
                "diff": format_unified(diff_lines(change.before or b"", change.after)),
            }
            for change in prospect.changes
        ],
        "problem": prospect.problem,
        "kept": [resource.id for resource in prospect.kept],
        "lost": [resource.id for resource in prospect.lost],
    }
