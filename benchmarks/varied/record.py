"""Recording varied work: sessions under a few policies, somebody to ask or nobody, until enough turns are judged."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foregate import policy
from foregate.agent.loop import runner
from foregate.agent.session.session import Session
from foregate.agent.workspace.local import LocalWorkspace
from foregate.policy.source.layers import Layer
from foregate.policy.source.load import LoadedPolicy, layer_policy, record_layers
from foregate.policy.source.strict_yaml import parse_yaml
from foregate.telemetry.log.memory_log import MemoryBlobs
from foregate.telemetry.log.sqlite_log import SqliteLog
from varied.jobs import HOSTS, VAGUE, JobMaker
from varied.worker import Somebody, Worker
from varied.world import World

SEED = 20260301
_HOSTS = {"hosts": list(HOSTS[:3])}
_CLASSIC = parse_yaml((Path(policy.__file__).parent / "classic.yaml").read_text("utf-8"), "classic.yaml")[0]
LAYERS: tuple[tuple[Mapping[str, Any], int], ...] = (
    ({"http": _HOSTS}, 40),
    ({"http": _HOSTS, "plan": {"form": "call"}, "critique": {"level": "plan"}}, 25),
    ({"http": _HOSTS, "approval": {"mode": "each"}, "narration": {"scope": "first_side_effect"}}, 10),
    ({"mandate": {"mode": "off"}, "critique": {"level": "call"}, "safety": {"model_calls": 3, "rounds": 1}}, 15),
    (
        {
            "rules": {
                "list": [
                    {"id": "no-pushes", "then": "deny", "command": ["git", "push"]},
                    {"id": "ask-removals", "then": "ask", "command": ["rm"]},
                    {"id": "own-linter", "then": "allow", "command": ["ruff"], "stands_for": "approval"},
                    {"id": "much-risk", "then": "ask", "risk_at_least": 800},
                ]
            },
            "tools": {"set_forwarding": {"effect": "administer", "reversible": True}},
        },
        10,
    ),
    (_CLASSIC | {"http": _HOSTS}, 10),
    ({"plan": {"mode": "shadow"}, "critique": {"mode": "shadow"}}, 5),
)
"""What a user's file says in the sessions, and how many of a hundred sessions have it."""
_WHERE = (88, 6, 6)
"""How many of a hundred sessions are in a plain folder, in a repository, and where Landlock alone holds commands: the
others take longer to look at than anything else here."""
_TASKS = (1, 1, 2, 2, 3, 5)


async def record_sessions(
    log: SqliteLog, turns: int, seed: int = SEED, layers: Sequence[tuple[Mapping[str, Any], int]] = LAYERS
) -> list[str]:
    """Record sessions until `turns` turns are judged; return their names, in the order of the log."""
    draw, names, judged = random.Random(seed), list[str](), 0
    loaded = [layer_policy(Layer("user.yaml", "user.yaml", dict(data), {})) for data, _ in layers]
    with tempfile.TemporaryDirectory() as folder:
        plain, kept = World(Path(folder) / "plain", draw), World(Path(folder) / "kept", draw, git=True)
        narrow = World(Path(folder) / "narrow", draw, narrow=True)
        while judged < turns:
            (chosen,) = draw.choices(loaded, [weight for _, weight in layers])
            names.append(f"20260301-{len(names):06}-{draw.randrange(65536):04x}")
            (world,) = draw.choices((plain, kept, narrow), _WHERE)
            judged += await _record_session(log, names[-1], world, chosen, draw)
    return sorted(await log.sessions())  # those of helpers among them


async def _record_session(log: SqliteLog, name: str, world: World, loaded: LoadedPolicy, draw: random.Random) -> int:
    """Record one session of a few tasks; return how many turns were judged in it."""
    world.reset()
    workspace, in_force = LocalWorkspace(world.root), loaded.policy
    worker, jobs = Worker(draw, world), JobMaker(draw, git=world.git)
    session = Session(
        log=log,
        lease=await log.claim(name, create=True),
        blobs=MemoryBlobs(),
        model=worker,
        tools=world.tools(workspace, in_force),
        policy=in_force,
        workspace=workspace,
        person=Somebody(draw) if draw.random() < 0.8 else None,
        layers=record_layers(loaded),
        delegate=runner.run_child_task,
    )
    judged: list[int] = []
    with session.log.subscribe(lambda event: judged.append(event.seq) if event.kind == "turn_judged" else None):
        await session.start()
        for _ in range(draw.choice(_TASKS)):
            job = jobs.make_job()
            worker.begin(job)
            outcome = await runner.run(session, job.say)
            if outcome.status == "needs_input":
                await runner.run(session, draw.choice(("src/count.py", "Yes, all of it.", *VAGUE[:1])))
        await session.close()
    workspace.close()
    return len(judged)


def record_log(
    path: Path, turns: int, seed: int = SEED, layers: Sequence[tuple[Mapping[str, Any], int]] = LAYERS
) -> list[str]:
    """Write a new log with at least `turns` judged turns of varied work; return the names of its sessions.

    `layers` are what the user's file says in sessions, each with its weight; `LAYERS[:1]` is one file for all.
    """
    log = SqliteLog(path)
    try:
        return asyncio.run(record_sessions(log, turns, seed, layers))
    finally:
        log.close()
