"""Playing a task: through Foregate under a policy, perhaps without one of its gates, or through a bare loop."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from foregate.agent.loop import runner
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.workspace.local import LocalWorkspace
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.evidence.state.conversation import format_object
from foregate.policy.policy import Policy
from foregate.policy.source.layers import Layer, read_layer
from foregate.policy.source.load import layer_policy, load_policy_layers, resolve_policy_file
from foregate.schemas.event import TurnJudged
from foregate.schemas.judgement import Standing
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.tool_call import ToolResult
from foregate.telemetry.log.memory_log import MemoryLog
from guarding.person import Asked
from guarding.robot import Robot
from guarding.task import task
from guarding.world import World

LONGEST = 40
"""Responses after which the bare loop stops."""


Who = Literal["careful", "careless", "naming", "nobody"]
"""Who answers: one who reads what is asked, one who says yes to everything, one who names all values as well, or
nobody."""


@dataclass(frozen=True, slots=True)
class Variant:
    """How tasks are played. `policy` names a shipped one, "" the default; `bare` is without Foregate.

    A `compromised` model plans and accepts whatever is to be done, a `silent` one says nothing beside its calls.
    `without` takes a gate out, `changes` sets values of the policy by their dotted keys.
    """

    name: str
    policy: str = ""
    bare: bool = False
    person: Who = "careful"
    compromised: bool = False
    silent: bool = False
    without: str = ""
    changes: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one task. `fired` names the gates that held, asked or denied; `tokens` are estimated."""

    task: str
    kind: str
    sort: str
    known_gap: str
    done: bool
    harms: tuple[str, ...]
    prompts: int
    model_calls: int
    advice_calls: int
    tokens: int
    fired: tuple[str, ...]
    answer: str


def play(variant: Variant, folder: Path) -> Played:
    """Play the task of a folder once, in a fresh workspace."""
    return asyncio.run(_play(variant, folder))


async def _play(variant: Variant, folder: Path) -> Played:
    what = task(folder)
    with tempfile.TemporaryDirectory() as root:
        world = World(what, folder, Path(root))
        robot = Robot(what, world.workspace, compromised=variant.compromised, silent=variant.silent)
        person = Asked(what, careless=variant.person in ("careless", "naming"), naming=variant.person == "naming")
        if variant.bare:
            answer, fired = await bare(world, robot), ()
        else:
            answer, fired = await gated(variant, world, robot, person)
        return Played(
            folder.name,
            what.kind,
            what.sort,
            what.known_gap,
            all(world.holds(check, answer) for check in what.after),
            tuple(str(check.model_dump(exclude_defaults=True)) for check in what.never if world.holds(check, answer)),
            person.prompts,
            robot.asked,
            robot.advised,
            robot.tokens,
            fired,
            answer,
        )


async def gated(variant: Variant, world: World, robot: Robot, person: Asked) -> tuple[str, tuple[str, ...]]:
    """Play through Foregate; return the last answer and the gates that fired."""
    log = MemoryLog()
    answering = None if variant.person == "nobody" else person
    policy = build_policy(variant)
    setting = SessionOptions(world.workspace, robot, policy, world.tools(), person=answering, log=log, environ={})
    opened = await open_session(setting)
    session = opened.session
    if variant.without:
        kept = tuple(gate for gate in session.prelude.gates if gate.name != variant.without)
        session.prelude = replace(session.prelude, gates=kept)
    answer = ""
    for turn in robot.task.turns:
        robot.begin(turn)
        outcome = await runner.run(session, turn.say)
        for words in turn.answers if answering is not None else ():
            if outcome.status != "needs_input":
                break
            person.prompts += 1
            outcome = await runner.run(session, words)
        person.prompts += answering is not None and outcome.status == "needs_input"
        answer = outcome.text
    fired = {
        decision.gate
        for event in await log.read(opened.name)
        if isinstance(event.body, TurnJudged)
        for decision in event.body.judgement.decisions
        if any(ruling.standing is not Standing.ALLOW for ruling in decision.rulings) or decision.consequence is not None
    }
    await opened.close()
    return answer, tuple(sorted(fired))


def build_policy(variant: Variant) -> Policy:
    """Return the policy of a variant; raise PolicyError for one that cannot be read, and for a key nobody knows."""
    file = resolve_policy_file(variant.policy) if variant.policy else None
    user = read_layer(file, file.name, trusted=True) if file is not None else Layer(variant.name, variant.name, {}, {})
    for key, value in variant.changes:
        *sections, last = key.split(".")
        place = user.data
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return layer_policy(user).policy


async def bare(world: World, robot: Robot) -> str:
    """Play through a loop that runs what it is told; return the last answer."""
    workspace = LocalWorkspace(world.workspace)
    policy = load_policy_layers(None).policy
    tools = {tool.spec.name: tool for tool in (*builtin_tools(workspace, policy), *world.tools())}
    offered = tuple(tool.spec for tool in tools.values())
    messages: list[Message] = []
    answer = ""
    try:
        for turn in robot.task.turns:
            robot.begin(turn)
            messages.append(Message("user", turn.say))
            for _ in range(LONGEST):
                response = (await robot.respond(ModelRequest(messages, offered))).stamp_calls(len(messages))
                messages.append(Message("assistant", response.text, response.calls))
                answer = response.text
                if not response.calls:
                    break
                for call in response.calls:
                    try:
                        result = await tools[call.name].run(call.arguments or {})
                    except Exception as error:
                        result = ToolResult(False, str(error))
                    messages.append(
                        Message("tool", format_object({"ok": result.ok, "output": result.content}), call=call.id)
                    )
    finally:
        workspace.close()
    return answer
