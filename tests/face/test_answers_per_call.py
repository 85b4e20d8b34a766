"""A person's answer to each call goes through a session: what was refused does not run, and the rest does."""

from __future__ import annotations

from pathlib import Path

import foregate
from foregate.testing import MemoryLog, ScriptedModel, ScriptedPerson, calls, says


async def test_of_two_calls_the_one_a_person_refuses_does_not_run_and_the_log_says_what_they_typed(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text("approval:\n  mode: each\n")
    wanted = calls(
        ("write_file", {"path": "a.txt", "content": "a"}),
        ("write_file", {"path": "b.txt", "content": "b"}),
        text="I write both files that you asked for.",
    )

    def reply(need: foregate.Need) -> foregate.Reply:
        first, second = need.calls
        return foregate.Reply("yes", "not this", calls={second: "no"}, named={first: ("a.txt", "\ud800")})

    person, log = ScriptedPerson([reply]), MemoryLog()
    async with foregate.Agent(
        model=ScriptedModel([wanted, says("done")]),
        person=person,
        workspace=folder,
        log=log,
        policy=tmp_path / "policy.yaml",
    ) as agent:
        await agent.run("write `a` into a.txt and `b` into b.txt")
        events = await log.read(agent.session)
    assert ((folder / "a.txt").read_text(), (folder / "b.txt").exists()) == ("a", False)
    answers = [event.body.answer.value for event in events if isinstance(event.body, foregate.NeedAnswered)]
    first, second = person.needs[0].calls
    value = answers[-1] or {}
    assert (value["calls"], value["named"]) == ({second: "no"}, {first: ["a.txt", "\ufffd" * 3]})
    refused = [event.body for event in events if isinstance(event.body, foregate.CallAnswered)]
    assert [(body.call, body.code) for body in refused] == [(second, "approval_denied")]
