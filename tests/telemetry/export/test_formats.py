"""Each format says what happened, and is what its documentation says it is."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from foregate.agent.dialects.dialect_model import DialectModel
from foregate.agent.dialects.tag_dialects import ActionTags
from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.tool_call import ToolCall
from foregate.telemetry.export.export import Export, ExportOptions, Format, SessionFamily
from foregate.telemetry.export.trajectory import Trajectory
from tests.agent import corpus
from tests.agent.corpus import READ, TALK
from tests.agent.world import World
from tests.corpus.archive import Recorded
from tests.corpus.damage import forged
from tests.corpus.log import Log, canonical
from tests.telemetry.export import stories
from tests.telemetry.export.openai_format import check_example, check_pair
from tests.telemetry.export.stories import STORIES, Story, told

SECRET = f"sk-{'a1B2' * 8}"
MARK = "marzipan"


async def lines(world: World, *names: str, **how: Any) -> list[dict[str, Any]]:
    """Return the lines of an export, read again from what would be written."""
    export = Export(world.log, world.blobs, ExportOptions(**how))
    made = list(export.export_family(SessionFamily(await world.log.sessions(), names)))
    assert export.tally.skipped == {}
    assert export.tally.lines == len(made)
    return [json.loads(json.dumps(line)) for line in made]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_every_example_is_one_of_the_documented_formats(story: Story) -> None:
    world, _ = await told(story)
    for example in await lines(world, format="openai"):
        check_example(json.dumps(example))
    for pair in await lines(world, format="openai", pairs=True):
        check_pair(json.dumps(pair))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_each_action_and_what_was_observed_stand_in_the_next_state(story: Story) -> None:
    world, _ = await told(story)
    rows = await lines(world, format="sao")
    for row in rows:
        assert set(row) >= {"state", "action", "observation", "reward", "verdicts", "decisions", "answers", "done"}
        assert row["reward"] is None
        assert len(row["observation"]) == len(row["verdicts"]) == len(row["action"].get("tool_calls", []))
    if story in (stories.compressed, stories.compressed_within, stories.plan_filled):
        return
    for row, after in itertools.pairwise(rows):
        if row["session"] != after["session"]:
            continue
        messages = after["state"]["messages"]
        if row["action"].get("content") or row["action"].get("tool_calls"):
            assert {key: value for key, value in row["action"].items() if key not in ("reasoning", "raw")} in messages
        for seen in row["observation"]:
            answer = {"role": "tool", "tool_call_id": seen["tool_call_id"], "content": seen["content"]}
            assert answer in messages


async def test_an_action_of_a_model_that_writes_its_calls_into_its_text_has_that_text() -> None:
    world, text = World(), 'I look. <read_file path="a.txt"/>'
    await run(await world.open(DialectModel(ScriptedModel([says(text), says("Done.")]), ActionTags())), "read a.txt")
    looked, done = [row["action"] for row in await lines(world, format="sao")]
    assert (looked["content"], looked["raw"]) == ("I look.", text)
    assert "raw" not in done
    (bare, _) = [row["action"] for row in await lines(world, format="sao", content=False)]
    assert "raw" not in bare


async def test_each_response_is_learnt_from_at_most_once_and_never_one_with_a_call_that_was_held() -> None:
    for story in STORIES:
        world, _ = await told(story)
        rows = await lines(world, format="sao")
        allowed = [
            row["action"]
            for row in rows
            if all(verdict["standing"] == "allow" for verdict in row["verdicts"])
            and all(seen["outcome"] in ("finished", "failed", "unknown") for seen in row["observation"])
            and row["actor"] == "model"
            and row["finish_reason"] != "length"
            and (row["action"].get("content") or row["verdicts"])
        ]
        learnt = [
            message
            for example in await lines(world, format="openai")
            for message in example["messages"]
            if message.get("weight") == 1
        ]
        plain = [json.dumps([m.get("content"), m.get("tool_calls")]) for m in learnt]
        assert sorted(plain) == sorted(json.dumps([a.get("content"), a.get("tool_calls")]) for a in allowed), story


async def test_a_session_says_how_each_kind_of_call_and_task_ended() -> None:
    ends = {
        stories.undone: ("finished", True, "completed"),
        stories.unknown: ("unknown", False, "completed"),
        stories.unfinished: ("open", False, "running"),
        stories.cancelled: ("unknown", False, "cancelled"),
        stories.waiting: ("open", False, "awaiting_approval"),
        stories.dry: ("not_run", False, "completed"),
    }
    for story, (outcome, undone, status) in ends.items():
        world, _ = await told(story)
        (made,) = await lines(world, check=True)
        task = made["extra"]["foregate"]["tasks"][0]
        assert task["status"] == status, story
        rows = await lines(world, format="sao")
        changes = [
            seen
            for row in rows
            for seen, call in zip(row["observation"], row["action"].get("tool_calls", []), strict=True)
            if call["function"]["name"] != "read_file"
        ]
        assert (changes[0]["outcome"], changes[0]["undone"]) == (outcome, undone), story
        done = [row["status"] for row in rows if row["done"]]
        assert done[:1] == ([status] if status in ("completed", "cancelled") else []), story


async def test_what_was_found_out_of_an_unknown_outcome_stands_with_the_call_and_who_said_so_after_it() -> None:
    world, _ = await told(stories.resolved)
    (made,) = await lines(world, check=True)
    (result,) = [result for step in made["steps"] for result in step.get("observation", {}).get("results", [])]
    assert result["extra"]["foregate"] == {"outcome": "unknown", "resolved": "done"}
    assert (made["steps"][-1]["extra"]["foregate"]["actor"], made["steps"][-1]["source"]) == ("person", "system")
    (row, _) = await lines(world, format="sao")
    assert row["observation"][0]["resolved"] == "done"


async def test_what_a_person_chose_after_a_task_failed_is_a_step_of_theirs() -> None:
    world, _ = await told(stories.plan_failed)
    (made,) = await lines(world, check=True)
    said = [step["message"] for step in made["steps"] if step["extra"]["foregate"]["actor"] == "person"]
    assert said == ["The plan was confirmed (a person saw the sheet).", "A person chose `go_on` after task 1 failed."]


async def test_a_plan_s_own_calls_are_nobody_s_response_and_what_was_asked_for_a_task_is_its_state() -> None:
    world, _ = await told(stories.plan_filled)
    own, filled = await lines(world, format="sao")
    assert (own["actor"], filled["actor"]) == ("planner", "model")
    assert "foregate" in json.loads(filled["state"]["messages"][-1]["content"])
    (made,) = await lines(world)
    agent = [step for step in made["steps"] if step["source"] == "agent"]
    counts = {step["extra"]["foregate"]["actor"]: step["llm_call_count"] for step in agent}
    assert counts == {"planner": 0, "model": 1}
    assert made["final_metrics"]["total_prompt_tokens"] == 7


async def test_a_child_stands_in_its_parent_s_document_and_behind_its_parent_s_lines() -> None:
    world, _ = await told(stories.grandchild)
    (made,) = await lines(world, check=True)
    (child,) = made["subagent_trajectories"]
    (grandchild,) = child["subagent_trajectories"]
    assert grandchild["extra"]["foregate"]["parent"] == child["session_id"]
    results = [result for step in made["steps"] for result in step.get("observation", {}).get("results", [])]
    assert results[0]["subagent_trajectory_ref"][0]["trajectory_id"] == child["trajectory_id"]
    sessions = [row["session"] for row in await lines(world, format="sao")]
    assert list(dict.fromkeys(sessions)) == ["s", child["session_id"], grandchild["session_id"]]
    assert [made["session_id"] for made in await lines(world, child["session_id"])] == [child["session_id"]]
    both = await lines(world, grandchild["session_id"], "s", format="sao")
    assert sorted(map(json.dumps, both)) == sorted(map(json.dumps, await lines(world, format="sao")))


async def test_who_answered_what_stands_with_the_step_it_was_about() -> None:
    world, _ = await told(stories.approved)
    (made,) = await lines(world)
    answers = [answer for step in made["steps"] for answer in step["extra"]["foregate"].get("answers", [])]
    told_ = [(answer["who"], answer["gate"], answer.get("choice"), answer.get("text")) for answer in answers]
    assert told_ == [("person", "approval", "no", "with a capital"), ("person", "approval", "yes", None)]
    held = made["steps"][3]
    assert held["tool_calls"][0]["extra"]["foregate"]["code"] == "approval_denied"
    assert answers[0]["calls"] == [held["tool_calls"][0]["tool_call_id"]]
    assert "with a capital" in held["observation"]["results"][0]["content"]
    codes = [row["code"] for row in held["extra"]["foregate"]["decisions"]]
    assert "approval_denied" in codes


async def marked(world: World) -> None:
    """Tell a session that says the mark and a secret wherever anything can be said."""
    path = f"{MARK}.txt"
    world.files[path] = f"teh {MARK} {SECRET}".encode()
    escaped = json.dumps({"path": path, "old": "teh", "new": f"the {SECRET}"}).replace("sk-", "\\u0073k-")
    model = [
        calls((f"{MARK}_tool", {MARK: MARK}), text=f"I will fix the {MARK}."),
        calls(("read_file", {"path": path})),
        calls(("edit_file", {"path": path, "old": "teh", "new": "the", SECRET: SECRET})),
        ModelResponse(calls=(ToolCall.parse("edit_file", escaped),), finish_reason="tool_calls"),
        calls(("read_file", {"path": f"no-{path}"})),
        says(f"done with {MARK} and {SECRET}"),
    ]
    session = await world.open(model)
    await run(session, f"fix the {MARK} with {SECRET} in {path}")


@pytest.mark.parametrize("how", [{"format": "atif"}, {"format": "sao"}, {"format": "openai"}], ids=str)
async def test_what_the_policy_calls_sensitive_is_in_no_export(how: dict[str, Any]) -> None:
    world = World()
    await marked(world)
    assert SECRET not in json.dumps(await lines(world, **how))
    assert MARK in json.dumps(await lines(world, **how))
    assert MARK not in json.dumps(await lines(world, **how, patterns=(MARK,)))


@pytest.mark.parametrize("form", ["atif", "sao"])
async def test_without_content_no_byte_anybody_said_is_exported(form: Any) -> None:
    world = World()
    await marked(world)
    text = json.dumps(await lines(world, format=form, content=False))
    assert MARK not in text
    assert "sk-" not in text
    for story in STORIES:
        world, _ = await told(story)
        for made in await lines(world, format=form, content=False, check=form == "atif"):
            said = json.dumps(made)
            for words in (TALK, corpus.BOB, "teh", "a.txt", "greeting", "You are an agent"):
                assert words not in said, (story, words)


async def test_a_masked_blob_hides_from_the_state_what_the_log_hides() -> None:
    world, _ = await told(stories.plan_filled)
    rows = await lines(world, format="sao", patterns=("mend the files",))
    assert "mend the files" not in json.dumps(rows)
    assert "[masked " in json.dumps(rows[1]["state"])


async def test_a_session_with_a_damaged_chain_is_named_and_the_others_are_exported() -> None:
    world, _ = await told(corpus.validity)
    session = await world.open([calls(READ), says("ok")], name="t")
    await run(session, "read a.txt")
    event, text = world.log._lines["s"][2]
    world.log._lines["s"][2] = (event, text.replace("fix", "fax"))
    export = Export(world.log, world.blobs, ExportOptions())
    assert [made["session_id"] for made in export.export_family(SessionFamily(["s", "t"]))] == ["t"]
    assert export.tally.tampered
    assert "its hash does not match" in export.tally.skipped["s"]


def moved_up(events: list[Any]) -> None:
    """Let a call end before it starts."""
    end = next(event for event in events if event["kind"] == "tool_finished")
    events.remove(end)
    events.insert(3, end)


def called_twice(events: list[Any]) -> None:
    """Let a response that calls stand there twice."""
    response = next(event for event in events if event["kind"] == "model_response" and event["body"]["calls"])
    events.insert(-2, response)


FORGED: dict[str, tuple[Callable[[list[Any]], object], str]] = {
    "moved": (
        moved_up,
        r"event 4 of session `s` cannot be exported \(LookupError: no response made the call `.*`\); .*",
    ),
    "listed": (lambda events: events[3].update(body=[]), r"event 4 cannot be read: .*Expected `object`, got `array`.*"),
    "untasked": (
        lambda events: events.pop(1),
        r"it cannot be exported \(event 3 is a response outside every task\); .*",
    ),
    "twice": (called_twice, r"it cannot be exported \(the conversation holds two calls with the id `.*`\); .*"),
}


@pytest.mark.parametrize(
    ("name", "format_"), [("moved", "atif"), ("listed", "atif"), ("untasked", "sao"), ("twice", "sao")]
)
async def test_a_log_that_was_forged_and_sealed_anew_is_named_in_one_sentence(name: str, format_: Format) -> None:
    forge, sentence = FORGED[name]
    world = World()
    await run(await world.open([calls(READ), says("ok"), says("bye")]), "read a.txt")
    rows = list(forged(list(world.log.lines("s")), forge, canonical))
    log = Log(Recorded(name, {"s": rows}, {"s": (rows[-1][0], rows[-1][2])}))
    export = Export(log, world.blobs, ExportOptions(format_))
    assert list(export.export_family(SessionFamily(["s"]))) == []
    assert re.fullmatch(sentence, export.tally.skipped["s"])


async def test_a_reward_counts_for_the_last_response_or_for_each() -> None:
    world, _ = await told(stories.child)

    def whole(trajectory: Trajectory) -> float:
        return float(trajectory.depth + 1)

    rows = await lines(world, format="sao", reward=whole)
    assert [row["reward"] for row in rows] == [0.0, 0.0, 1.0, 0.0, 2.0]

    def each(trajectory: Trajectory) -> list[float]:
        return [len(step.actions) for step in trajectory.responses]

    (made,) = await lines(world, check=True, reward=each)
    assert made["extra"]["foregate"]["reward"] == 1
    assert [step["extra"]["foregate"].get("reward") for step in made["steps"] if step["source"] == "agent"] == [1, 0, 0]


async def test_a_response_in_stages_is_one_step_with_its_calls_as_sent_and_an_answer_to_each() -> None:
    for content in (True, False):
        world, _ = await told(corpus.stages)
        (document,) = await lines(world, format="atif", content=content)
        step = next(step for step in document["steps"] if step.get("tool_calls"))
        ids = [call["tool_call_id"] for call in step["tool_calls"]]
        assert len(ids) == 5
        assert sorted(result["source_call_id"] for result in step["observation"]["results"]) == sorted(ids)
        if content:
            assert {"path": "$result_of_step_1"} in [call["arguments"] for call in step["tool_calls"]]
