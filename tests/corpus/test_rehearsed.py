"""Recorded sessions of earlier versions are played again to the same counts, as far as they are played."""

from __future__ import annotations

import asyncio

import pytest

from foregate.gates.replay.assumption import NOTHING
from foregate.tuning.family_replay import PolicyReplacer
from foregate.tuning.rehearse import rehearse
from tests.corpus.archive import read_sessions
from tests.corpus.log import Log

EVERY = 12
"""Of so many recordings one is played, for time."""
PLAYED = sorted(read_sessions())[::EVERY]


@pytest.mark.parametrize("name", PLAYED)
def test_under_its_own_policy_a_recorded_session_comes_to_the_same(name: str) -> None:
    log = Log(read_sessions()[name])
    events = {session: list(log.events(session)) for session in log.sessions}
    played = asyncio.run(rehearse(lambda one: events.get(one, ()), sorted(events), PolicyReplacer(None), NOTHING))
    assert {one.session: one.now for one in played} == {one.session: one.then for one in played}
