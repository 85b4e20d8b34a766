"""A program at the other end of the chat: it reads events and questions as JSON lines and answers in the same way."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from foregate.cli.chat.utterance import Misheard, Utterance, utterance
from foregate.cli.terminal.diff import difference, unified
from foregate.cli.terminal.pipe import Line, Pipe
from foregate.cli.terminal.scripting import event_line, one_line
from foregate.schemas import strict_json
from foregate.schemas.event import Event
from foregate.schemas.json_object import texts
from foregate.schemas.need import Need
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import Json

if TYPE_CHECKING:
    from foregate.agent.effects.preview import Prospect
    from foregate.agent.session.session import Session


class Program:
    """Speaks JSON lines. As a Person it prints a question and waits for the one line that answers exactly that."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe, self._out = pipe, sys.stdout
        self.session: Session | None = None

    def tell(self, value: Json) -> None:
        """Print one line."""
        print(one_line(value), file=self._out, flush=True)

    def wrong(self, why: str) -> None:
        """Say in one sentence why nothing came of a line."""
        self.tell({"error": why})

    def hear(self, event: Event) -> None:
        """Print an event as it was recorded; a listener of the session."""
        print(event_line(event), file=self._out, flush=True)

    async def answer(self, need: Need) -> Reply | None:
        """Ask and return the reply; see Person. Another message, /quit and the end of input leave the question open."""
        asked = strict_json.digest(need.request)
        choices = choices_of(need)
        self.pipe.asked()
        self.tell(
            {
                "asks": need.gate,
                "code": need.code,
                "request": asked,
                "answers": choices,
                "expires_at": need.expires_at,
                "sheet": need.request,
                "prospects": self.prospects(need),
            }
        )
        while (line := await self.pipe.next()) is not None:
            try:
                said = utterance(line.text, need.gate)
                if said is None:
                    continue
                if said.kind == "answer":
                    return reply(said, line, choices, asked, self.pipe.questions)
                if said.kind == "message" or said.text == "/quit":
                    self.pipe.put_back(line if said.kind == "command" else Line(one_line({"message": said.text})))
                    return None
                raise Misheard(f"a question is open; answer it first: {', '.join(choices)}")
            except Misheard as error:
                self.wrong(str(error))
        return None

    def prospects(self, need: Need) -> Mapping[str, Json]:
        """Return what the calls of a sheet would do to the workspace as it is now, by call id."""
        from foregate.agent.effects.preview import prospects

        if self.session is None or need.gate != "approval":
            return {}
        return {call: described(prospect) for call, prospect in prospects(self.session, need).items()}


def choices_of(need: Need) -> list[str]:
    """Return the words that answer a question; one about a plan names them itself."""
    if need.gate == "task_plan":
        return list(texts(need.request["answers"], "answers"))
    if need.gate == "loop":
        return [*(["anyway"] if need.request.get("can_override") else []), "stop", "more"]
    return ["yes", *(["grant"] if need.request.get("grants") else []), "no"]


def reply(said: Utterance, line: Line, choices: list[str], asked: str, questions: int) -> Reply:
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


def described(prospect: Prospect) -> Json:
    """Return a prospect as JSON; there are no `changes` where no change of a file is known."""
    return {
        "changes": [
            {
                "path": change.path,
                "new": change.before is None,
                "diff": unified(difference(change.before or b"", change.after)),
            }
            for change in prospect.changes
        ],
        "problem": prospect.problem,
        "kept": [resource.id for resource in prospect.kept],
        "lost": [resource.id for resource in prospect.lost],
    }
