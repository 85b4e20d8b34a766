"""A process that works on a log step by step: a line on its input is a step, a line on its output says it is done.

`free` appends and settles without waiting for steps, and says after each event that it is durable.
"""

from __future__ import annotations

import asyncio
import os
import sys

from foregate.schemas.errors import ForegateError
from foregate.schemas.event import Draft
from foregate.schemas.event_body import UserMessage
from foregate.schemas.protocols import Lease
from foregate.telemetry.log.sqlite_log import SqliteLog


class Worker:
    """One log and at most one session of it."""

    def __init__(self, path: str) -> None:
        self.log = SqliteLog(path)
        self.lease = Lease("", "", 0)

    async def say(self, text: str) -> None:
        """Append one event."""
        await self.log.append(self.lease, [Draft(UserMessage(text=text), "user")], policy="p", time="")

    async def step(self, name: str, what: str) -> None:
        """Take one step."""
        match name:
            case "claim":
                self.lease = await self.log.claim(what, create=True)
            case "append":
                await self.say(what)
            case "settle":
                await self.log.settle(self.lease)
            case "release":
                await self.log.release(self.lease)
            case "free":
                for number in range(int(what)):
                    await self.say(f"free {number}")
                    await self.log.settle(self.lease)
                    done(str(number + 1))


async def main(path: str) -> None:
    """Obey the steps until the input ends."""
    worker: Worker | None = None
    for line in sys.stdin:
        name, _, what = line.strip().partition(" ")
        try:
            worker = worker or Worker(path)
            await worker.step(name, what)
            done("ok")
        except ForegateError as error:
            done(f"{type(error).__name__}: {error}")


def done(text: str) -> None:
    """Say that a step is done, at once."""
    os.write(1, f"{text}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
