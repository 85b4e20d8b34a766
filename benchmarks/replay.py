"""What it costs to judge a recorded turn again, against reading its JSON, as a ratio in one run.

Reading is the standard library's parser over the lines of all of a turn's events. Judging again starts from the events
and ends with the comparison of the verdicts: the turn is put together from its events and goes through all nine gates.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from endless import SESSION, opened, turns
from figures import Report

from foregate.evidence.state.recorded_turns import read_judged_turns
from foregate.gates.prelude import build_prelude
from foregate.gates.replay.redecide import redecide
from foregate.policy.policy import Policy
from foregate.schemas.event_body import SessionStarted
from foregate.schemas.tool_spec import build_catalogue
from foregate.telemetry.log import chain
from foregate.telemetry.log.memory_log import MemoryLog

COUNT = 400


async def main() -> int:
    """Print the median ratio of eleven interleaved rounds, each over a whole session."""
    log = MemoryLog()
    await turns(await opened(log), COUNT)
    lines = [(text, hash_) for _, text, hash_ in log.lines(SESSION)]
    rounds = [(judged_again(lines) / 1000, read(lines) / 1000) for _ in range(11)]
    report = Report("replay", "gates", "policy", "evidence", "schemas", "telemetry/queries")
    report.add_rounds("a turn judged again", rounds, "us", most=8)
    return report.end()


def read(lines: list[tuple[str, str]]) -> float:
    """Parse all lines; return the nanoseconds per turn."""
    start = time.perf_counter_ns()
    for text, _ in lines:
        json.loads(text)
    return (time.perf_counter_ns() - start) / COUNT


def judged_again(lines: list[tuple[str, str]]) -> float:
    """Judge all turns of freshly read events again; return the nanoseconds per turn."""
    events = [chain.read_line(text, hash_) for text, hash_ in lines]
    began = events[0].body
    assert isinstance(began, SessionStarted)
    policy = Policy.model_validate_json(json.dumps(began.policy))
    catalogue = build_catalogue(began.catalogue)
    bench = build_prelude(policy, catalogue)
    start = time.perf_counter_ns()
    for turn in read_judged_turns(events):
        result = redecide(turn.turn, turn.judgement, policy, bench, policy, catalogue)
        assert result.is_unchanged
    return (time.perf_counter_ns() - start) / COUNT


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
