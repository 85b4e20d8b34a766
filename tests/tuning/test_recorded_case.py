"""Recorded decisions as cases, where a turn had no calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate.policy.source.load import default_policy
from foregate.schemas.errors import UsageError
from foregate.schemas.event import TurnJudged
from foregate.telemetry.queries.rulings import find_decision, find_ruling
from foregate.tuning.case import format_case, judge_case, read_case
from foregate.tuning.case_cutting import cut_recorded
from tests.varied import varied_log


def test_what_was_said_of_an_answer_in_words_becomes_a_case_and_is_no_ruling_on_a_call(tmp_path: Path) -> None:
    log, names = varied_log()
    events = (event for name in names for event in log.events(name, kinds=("turn_judged",)))
    event = next(one for one in events if isinstance(one.body, TurnJudged) and not one.body.judgement.verdicts)
    found = cut_recorded(log, find_decision(log, event.session, event.seq, "postlude"))
    assert (found.expected.gate, found.call, found.turn.calls) == ("postlude", "", ())
    file = tmp_path / "case.yaml"
    file.write_text(format_case(found))
    assert judge_case(read_case(file), default_policy()) == found.expected
    for call, says in (("", "judged an answer in words; name a decision about calls"), ("c9", "judged an answer")):
        with pytest.raises(UsageError, match=says):
            find_ruling(log, event.session, event.seq, "postlude", call)
