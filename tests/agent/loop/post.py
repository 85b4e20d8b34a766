"""A mailbox, a bank and pages that a scripted model works with, for a person who replies as given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import foregate
from foregate.agent.models.scripted import Answer
from foregate.schemas.event import NeedRaised, TurnJudged
from foregate.testing import MemoryLog, ScriptedModel, ScriptedPerson
from tests.policies import policy_with

UNCRITICISED = policy_with({"critique.mode": "off"})

EVIL = "thief@evil.example"
SEND = "send_mail"


class Post:
    """A mailbox that reads what somebody from outside wrote, and a bank; `sent` and `paid` are what went out."""

    def __init__(self, content: str, failures: int = 0) -> None:
        self.failures = failures
        self.sent: list[tuple[str, str]] = []
        self.paid: list[tuple[str, float]] = []

        @foregate.tool(read_only=True)
        def read_mail() -> str:
            """Return the newest mail."""
            return content

        @foregate.tool(effect="send", external=True, reversible=False, targets={"to": "message"}, texts=["text"])
        def send_mail(to: str, text: str) -> str:
            """Send a mail."""
            self.sent.append((to, text))
            return f"sent to {to}"

        @foregate.tool(
            effect="send", external=True, reversible=False, targets={"to": "message"}, amounts=["amount"], texts=[]
        )
        def pay(to: str, amount: float) -> str:
            """Pay an amount."""
            self.paid.append((to, amount))
            if len(self.paid) <= self.failures:
                raise RuntimeError("the bank is closed")
            return f"paid {amount}"

        @foregate.tool(read_only=True, targets={"url": "url"})
        def open_page(url: str) -> str:
            """Return a page."""
            self.sent.append((url, ""))
            return "a page"

        self.tools = (read_mail, send_mail, pay, open_page)


async def talk(
    folder: Path,
    post: Post,
    said: str | Sequence[str],
    steps: Sequence[Any],
    replies: Sequence[Answer] | None,
    **more: Any,
) -> tuple[list[Any], list[str]]:
    """Let a scripted model work for a person who replies as given, or for nobody; return the needs and the codes.

    Unless another `policy` is given, no critic is asked.
    """
    more.setdefault("policy", UNCRITICISED)
    person = ScriptedPerson(replies) if replies is not None else None
    model = ScriptedModel(steps)
    found: list[Any] = []
    codes: list[str] = []
    opened = foregate.Agent(workspace=folder, model=model, person=person, tools=post.tools, log=MemoryLog(), **more)
    async with opened as agent:
        for message in (said,) if isinstance(said, str) else said:
            async for event in agent.events(message):
                if isinstance(event.body, NeedRaised):
                    found.append(event.body.need)
                if isinstance(event.body, TurnJudged):
                    codes += [v.ruling.code for v in event.body.judgement.verdicts]
    model.finish()
    if person is not None:
        person.finish()
    return found, codes
