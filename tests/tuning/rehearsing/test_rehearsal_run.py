"""Rehearsing a log comes to the same however many processes do it, and claims nothing where it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from foregate.gates.replay.assumption import NOTHING, Assumption
from foregate.policy.source.layers import Layer
from foregate.policy.source.load import load_policy_layers, record_layers
from foregate.schemas.event import Draft
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.tuning.family_replay import PolicyReplacer
from foregate.tuning.pieces import ProcessWorkers
from foregate.tuning.rehearse import RehearsalRun, SessionCounts, find_families, rehearse
from tests.agent import corpus
from tests.policies import policy_with
from tests.tuning.rehearsing.families import DONE, Message, delegate, list_events, play_messages
from tests.tuning.rehearsing.models import TALK

STRICT = Layer("x", "x", {"narration": {"scope": "first_response"}}, {})
EDITS = Message([(TALK, [corpus.READ]), (TALK, [corpus.EDIT])], ends=True)
HANDS_ON = Message([("", [delegate()]), (TALK, [corpus.READ]), DONE], ends=True)


def play(log: Any, names: list[str], workers: Any = 1, **assumed: str) -> tuple[list[Any], list[Any]]:
    """Return what came of each session under a stricter layer, and of all."""
    run = RehearsalRun(log, STRICT, Assumption(**assumed), workers)
    played = [asdict(one) for one in run.play(names)]
    return played, [asdict(part) for part in run.tally.parts]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SqliteLog, list[str]]]:
    """A log in a file with a family of sessions and a child task, and its sessions."""

    async def record() -> list[str]:
        world = await play_messages([EDITS, HANDS_ON, EDITS], policy_with())
        for name, events in (await list_events(world)).items():
            lease = await log.claim(name, create=True)
            for event in events:
                body = event.body
                if event.kind == "session_started":
                    body = replace(body, layers=record_layers(load_policy_layers(None, Path("/nowhere")), []))  # type: ignore[arg-type]
                await log.append(lease, [Draft(body, event.actor)], policy=event.policy, time=event.time)
            await log.release(lease)
        return list(await log.sessions())

    with closing(SqliteLog(tmp_path_factory.mktemp("log") / "events.db")) as log:
        names = asyncio.run(record())
        yield log, names


def test_two_processes_find_what_one_finds(kept: tuple[SqliteLog, list[str]]) -> None:
    log, names = kept
    assert sorted(names) == ["s", "s-2", "s-2.c4.1", "s-3"]
    alone = play(log, names)
    assert play(log, names, ProcessWorkers(2)) == alone
    assert [one["session"] for one in alone[0]] == ["s", "s-2", "s-3", "s-2.c4.1"]


def test_each_session_is_counted_once_however_often_it_is_named(kept: tuple[SqliteLog, list[str]]) -> None:
    log, names = kept
    together, parts = play(log, names)
    assert sum(part["sessions"] for part in parts) == len(names) == len(together)
    for one in together:
        ((alone,), _) = play(log, [one["session"]])
        assert alone == one


def test_what_has_to_be_played_before_a_session_is_found_by_its_links(kept: tuple[SqliteLog, list[str]]) -> None:
    log, _ = kept
    assert find_families(log, ["s-2.c4.1"]) == {"s": ["s", "s-2", "s-2.c4.1"]}
    assert find_families(log, ["s-3", "s"]) == {"s": ["s", "s-2", "s-3"]}


def test_the_three_parts_hold_each_session_once_and_are_never_mixed(kept: tuple[SqliteLog, list[str]]) -> None:
    log, names = kept
    played, (whole, supposed, stopped) = play(log, names, model="same")
    assert whole["sessions"] + supposed["sessions"] + stopped["sessions"] == len(played) == len(names)
    assert stopped["sessions"] == sum(bool(one["stopped"]) for one in played)
    assert supposed["sessions"] == sum(bool(one["assumed"]) and not one["stopped"] for one in played)
    assert supposed["sessions"] > 0
    assert not whole["assumed"]


async def test_a_log_under_another_version_counts_only_where_this_one_judges_it_alike() -> None:
    world = await play_messages([EDITS], policy_with())
    events = [replace(event, foregate="0.0.1") for event in await world.log.read("s")]
    off = PolicyReplacer(lambda layers: policy_with({"narration.mode": "off"}))
    (alike,) = await rehearse(lambda name: events, ["s"], off, NOTHING)
    assert (alike.stopped, alike.version) == ("", "0.0.1")
    ran = next(event for event in events if event.kind == "tool_started")
    odd = list(events)
    odd.insert(events.index(ran), replace(ran, body=replace(ran.body, call="c99.1")))  # type: ignore[arg-type]
    (other,) = await rehearse(lambda name: odd, ["s"], off, NOTHING)
    assert (
        other.stopped == "Foregate 0.0.1 recorded it, and this one comes to something else under the very same policy"
    )
    assert other.now == other.then == SessionCounts()
