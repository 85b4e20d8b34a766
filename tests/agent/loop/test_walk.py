"""How many files one must open to follow one edit, from the model's response to the result in the log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from foregate.agent.loop.runner import take_step
from foregate.agent.models.scripted import calls, says
from foregate.policy.source.load import default_policy
from tests.agent.world import World

ROOT = Path(__file__).resolve().parents[3]
MOST = 41
READ = ("read_file", {"path": "a.txt"})
FIRST = ("edit_file", {"path": "a.txt", "old": "cat", "new": "dog"})
EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})


@contextmanager
def traced(found: dict[str, None]) -> Iterator[None]:
    """Note each of our files in which a function is called, in the order of the first calls."""

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            path = Path(frame.f_code.co_filename).resolve()
            if path.is_file() and path.is_relative_to(ROOT) and "tests" not in path.parts and ".venv" not in path.parts:
                found.setdefault(str(path.relative_to(ROOT)))

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


async def test_no_further_file_is_needed_to_follow_one_edit() -> None:
    world, found = World(policy=default_policy()), dict[str, None]()
    session = await world.open([calls(READ), calls(FIRST), calls(EDIT), says("mended")])
    await session.record_message("in a.txt replace teh with the, and cat with dog")
    # what is worked out once, at a first edit, nobody has to follow at each
    while session.state.open is None or session.state.open.response.calls[0].arguments != EDIT[1]:
        await take_step(session)
    with traced(found):
        while session.state.open is not None:
            await take_step(session)
    assert world.workspace.files["a.txt"] == b"the dog"
    print(f"{len(found)} files:", *found, sep="\n  ")
    assert len(found) <= MOST
