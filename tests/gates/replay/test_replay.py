"""Judging recorded turns again, elsewhere, gives the same bytes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from foregate.evidence.state.recorded_turns import read_judged_turns
from foregate.schemas import strict_json
from foregate.schemas.codes import CODES
from foregate.schemas.event import Event, NeedRaised, TurnJudged
from foregate.schemas.turn import export_turn
from tests.agent.corpus import STORIES, Story, events_of

JUDGE = Path(__file__).with_name("judge_elsewhere.py")
NOT_ROWS = {"changed_while_waiting"}
"""Codes that name why a person is asked again; they stand in the need and in the reason of the ruling."""


def codes_in(events: list[Event]) -> set[str]:
    """Return every code the events carry."""
    found: set[str] = set()
    for event in events:
        match event.body:
            case NeedRaised(need=need):
                found.add(need.code)
            case TurnJudged(judgement=judgement):
                for decision in judgement.decisions:
                    found |= {decision.code, *(ruling.code for ruling in decision.rulings)}
                found |= {verdict.ruling.code for verdict in judgement.verdicts}
            case _:
                pass
    return found


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_every_story_plays_to_its_end(story: Story) -> None:
    assert await events_of(story)


async def test_the_corpus_fires_every_code_at_least_once() -> None:
    fired: set[str] = set()
    for story in STORIES:
        fired |= codes_in(await events_of(story))
    wanted = {code for codes in CODES.values() for code in codes} | {"gate_error", "not_asked_now"}
    assert wanted - fired == set()


async def exported() -> tuple[list[str], list[str]]:
    """Return the corpus' turns as JSON lines without their decisions, and the judgements of the log."""
    lines, expected = [], []
    for story in STORIES:
        for turn in read_judged_turns(await events_of(story)):
            content = {
                "turn": export_turn(turn.turn),
                "policy": turn.in_force.policy,
                "catalogue": [strict_json.dump(spec) for spec in turn.in_force.catalogue or ()],
            }
            lines.append(json.dumps(content))
            expected.append(strict_json.encode_record(strict_json.dump(turn.judgement)).decode())
    return lines, expected


def test_turns_without_their_decisions_judged_in_a_fresh_process_give_the_bytes_of_the_log() -> None:
    lines, expected = asyncio.run(exported())
    done = subprocess.run(
        [sys.executable, "-I", str(JUDGE)], input="\n".join(lines), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == expected
    assert len(expected) > 30


async def test_a_judged_turn_takes_at_most_four_kilobytes_and_one_more_per_further_call() -> None:
    for story in STORIES:
        for event in await events_of(story):
            if isinstance(event.body, TurnJudged):
                calls = max(1, len(event.body.judgement.verdicts))
                assert len(strict_json.encode_record(strict_json.dump(event.body))) <= min(
                    4096 + 1024 * (calls - 1), 16384
                )
