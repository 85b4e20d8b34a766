"""What tests of an agent need: a model and a person that follow a script, and a log, a store and a workspace in memory.

    import foregate
    from foregate.testing import MemoryLog, ScriptedModel, ScriptedPerson, calls, says

    model = ScriptedModel([calls(("count", {"item": "paint"})), says("two cans")])
    person = ScriptedPerson([])
    with foregate.Agent(model=model, person=person, tools=[count], builtin=False, log=MemoryLog()) as agent:
        assert agent.run_sync("how much paint is left?").text == "two cans"
    model.finish()
    person.finish()

A script that is too short fails at once, one that is too long fails in `finish`.
"""

from __future__ import annotations

from foregate.agent.models.scripted import ScriptedModel, ScriptedPerson, ScriptError, answers, calls, says
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog

__all__ = [
    "MemoryBlobs",
    "MemoryLog",
    "MemoryWorkspace",
    "ScriptError",
    "ScriptedModel",
    "ScriptedPerson",
    "answers",
    "calls",
    "says",
]
