"""What made the questions to people is counted from the questions put, with the answers and what followed."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.cli.reports import format_prompts
from foregate.schemas.protocols import Reply
from foregate.telemetry.queries.filters import DecisionFilter
from foregate.telemetry.queries.rows import SessionRow
from foregate.telemetry.queries.statistics import PromptCount, count_prompts
from tests.agent.corpus import ASK_EDITS, EDIT, READ, STORIES, TALK, rules, told
from tests.agent.loop.test_overrides import CASES, play
from tests.agent.world import World
from tests.telemetry.queries.made_index import open_index, put_session

RAISED = """SELECT count(*) FROM events WHERE json_extract(text, '$.kind') = 'need_raised'
  AND json_extract(text, '$.body.need.who') = 'person'"""
ANSWERED = """SELECT count(*) FROM events WHERE json_extract(text, '$.kind') = 'need_answered'
  AND json_extract(text, '$.body.answer.who') = 'person' AND json_type(text, '$.body.answer.value') = 'object'"""
WORDS = """SELECT count(*) FROM events WHERE json_extract(text, '$.body.judgement.consequence.kind') = 'ask_user'"""
SAID = f"""{WORDS} AND EXISTS (SELECT 1 FROM events m WHERE m.session = events.session AND m.seq > events.seq
  AND json_extract(m.text, '$.kind') = 'user_message')"""
YES = f"{ANSWERED} AND json_extract(text, '$.body.answer.value.choice') IN ('yes', 'grant', 'anyway')"


async def put(path: Path) -> None:
    """Put sessions with every kind of question into the log at `path`."""
    for number, story in enumerate(STORIES):
        world = World()
        session = await story(world)
        put_session(path, f"s{number}", world.log.lines(session.name))
    for number, case in enumerate(CASES.values()):
        world = await play(case, (case.call,))
        put_session(path, f"c{number}", world.log.lines("s"))


async def test_the_prompts_are_the_questions_and_answers_that_the_log_holds(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    await put(path)
    with closing(open_index(path)) as index, closing(sqlite3.connect(path)) as log:
        found = count_prompts(index, DecisionFilter())
        counts = [sum(getattr(row, name) for row in found) for name in ("prompts", "yes", "no", "unanswered")]
        raised, answered, yes, words, said = (
            log.execute(query).fetchone()[0] for query in (RAISED, ANSWERED, YES, WORDS, SAID)
        )
        assert counts == [raised + words, yes, answered - yes + said, raised - answered + words - said]
        assert {row.gate for row in found} >= {"rules", "narration", "drift", "uncertainty", "plan", "critique"}
        nothing = count_prompts(index, DecisionFilter(sessions=["none"]))
        assert nothing == []
        own = count_prompts(index, DecisionFilter(sessions=["c0"]))
        assert 0 < sum(row.prompts for row in own) < raised


async def count_one(
    path: Path, model: list[Any], person: list[Any], policy: Any
) -> tuple[list[PromptCount], SessionRow]:
    """Return the prompts of one session, and its row in the list of sessions."""
    world = World(policy=policy)
    await told(world, model, person)
    put_session(path, "s", world.log.lines("s"))
    with closing(open_index(path)) as index:
        return count_prompts(index, DecisionFilter()), index.list_sessions()[0]


@pytest.mark.parametrize(
    ("answer", "counts"), [("yes", (1, 1, 0, 0, 1)), ("no", (1, 0, 1, 0, 0)), (None, (1, 0, 0, 1, 0))]
)
async def test_a_prompt_stands_under_the_rule_that_made_it(
    tmp_path: Path, answer: Any, counts: tuple[int, ...]
) -> None:
    model = [calls(READ, text=TALK), calls(EDIT), says("ok")]
    (row,), listed = await count_one(tmp_path / "events.db", model, [answer], rules(ASK_EDITS))
    if answer is not None:
        assert (row.gate, row.rule, row.key) == ("rules", "ask-edits", "rules.list.ask-edits")
    assert (row.prompts, row.yes, row.no, row.unanswered, row.ran) == counts
    assert listed.asked_about == 1


async def test_a_yes_whose_call_was_stopped_all_the_same_says_by_whom(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    case = CASES["plan_rejected"]
    world = await play(CASES["uncertainty_clarification"]._replace(policy=case.policy, plan=case.plan), (case.call,))
    put_session(path, "s", world.log.lines("s"))
    story = next(one for one in STORIES if one.__name__ == "outside_the_mandate")
    world = World()
    await story(world)
    put_session(path, "o", world.log.lines("s"))
    with closing(open_index(path)) as index:
        (row,) = count_prompts(index, DecisionFilter(sessions=["o"]))
    assert (row.gate, row.key, row.yes, row.ran, row.stopped_by) == ("approval", "mandate.mode", 1, 0, "approval")


async def play_not_run() -> World:
    """Play a yes to two edits of which the first cannot be made, so that the second is not run."""
    world = World(policy=rules(ASK_EDITS))
    edits = [("edit_file", {"path": "a.txt", "old": old, "new": "dog"}) for old in ("nowhere", "cat")]
    await told(world, [calls(READ, text=TALK), calls(*edits), says("ok")], ["yes"])
    return world


async def play_changed() -> World:
    """Play a yes during which the file changes that was asked about."""
    world = World(policy=rules(ASK_EDITS))

    def answer(_: object) -> Reply:
        world.workspace.files["a.txt"] = b"teh dog"
        return Reply("yes")

    await told(world, [calls(READ, text=TALK), calls(EDIT), says("ok")], [answer])
    return world


@pytest.mark.parametrize(
    ("play", "stopped_by"), [(play_not_run, "not_run_after_change_not_made"), (play_changed, "evidence")]
)
async def test_a_call_that_was_let_go_after_a_yes_and_then_not_run_did_not_run(
    tmp_path: Path, play: Callable[[], Awaitable[World]], stopped_by: str
) -> None:
    put_session(tmp_path / "events.db", "s", (await play()).log.lines("s"))
    with closing(open_index(tmp_path / "events.db")) as index:
        (row,) = count_prompts(index, DecisionFilter())
    assert (row.rule, row.yes, row.ran, row.stopped_by) == ("ask-edits", 1, 0, stopped_by)


async def test_a_question_that_still_waits_has_the_gate_and_the_key_that_made_it(tmp_path: Path) -> None:
    world = World(policy=rules(ASK_EDITS))
    session = await world.open([calls(READ, text=TALK), calls(EDIT)], [None])
    assert (await run(session, "mend a.txt")).status == "awaiting_approval"
    put_session(tmp_path / "events.db", "s", world.log.lines(session.name))
    with closing(open_index(tmp_path / "events.db")) as index:
        (row,) = count_prompts(index, DecisionFilter())
    assert (row.gate, row.rule, row.key, row.unanswered) == ("rules", "", "rules.list", 1)


@pytest.mark.parametrize(("answer", "counts"), [("", (1, 0, 0, 1)), ("to eve@example.org", (1, 0, 1, 0))])
async def test_a_question_that_a_message_answers_is_a_prompt_of_the_gate_that_asked_it(
    tmp_path: Path, answer: str, counts: tuple[int, ...]
) -> None:
    case = CASES["uncertainty_clarification"]
    world = World(policy=case.policy())
    session = await world.open([calls(case.call, text=TALK), says("I let it be.")])
    assert (await run(session, case.says)).status == "needs_input"
    if answer:
        await run(session, answer)
    put_session(tmp_path / "events.db", "s", world.log.lines(session.name))
    with closing(open_index(tmp_path / "events.db")) as index:
        (row,) = count_prompts(index, DecisionFilter())
    assert (row.gate, row.key) == ("uncertainty", "uncertainty.threshold")
    assert (row.prompts, row.yes, row.no, row.unanswered) == counts


def test_the_table_fits_its_terminal() -> None:
    row = PromptCount("uncertainty", "", "uncertainty." + "x" * 60, 12_345, 99_999, 99_999, 99_999, 99_999, "approval")
    lines = list(format_prompts([row]))
    assert max(map(len, lines)) <= 80
    assert list(format_prompts([])) == []
