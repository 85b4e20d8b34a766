"""Asking for a plan over real HTTP: again with what was wrong, then simply, then the person; all of it recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.models.scripted import ScriptedPerson
from foregate.agent.planning.asking import PLANNER, SIMPLER, suggest_rewording
from foregate.agent.planning.configuration import Configuration, default_configuration
from foregate.agent.planning.planner import GATE, Planning, WirePlan, make_plan
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.schemas import strict_json
from foregate.schemas.event import Event, NeedAnswered, NeedRaised
from foregate.schemas.event_body import TaskPaused
from foregate.schemas.strict_schema import strict_schema
from foregate.schemas.task_plan import PlanDefect
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog
from tests.agent.models.openai.scripted_server import Reply, ScriptedServer, failure, message
from tests.agent.models.openai.test_model import model_at
from tests.events import bodies

REQUEST = "Read a.txt, mend its typo and then commit it"
CALL = {"id": "c", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a.txt"}'}}


def wire(*tasks: dict[str, Any]) -> str:
    """Return a plan as it travels."""
    blank = dict.fromkeys(("action", "target", "expected_outcome", "params", "calls", "when", "may_fail"))
    listed = [{"id": n, "reason": f"r{n}", "depends_on": [], **blank, **one} for n, one in enumerate(tasks, 1)]
    about = {"estimated_duration": None, "requires_confirmation": True, "metadata": None}
    return json.dumps({"goal": "Mend it", "tasks": listed, **about})


GOOD = wire({"action": "read_file", "target": "a.txt"}, {"action": "edit_file", "target": "a.txt", "depends_on": [1]})
LOOPED = wire({"action": "git_status", "depends_on": [2]}, {"action": "git_diff", "depends_on": [1]})


class Asked:
    """What asking came to: the planning, the requests as the endpoint saw them, the events and their blobs."""

    def __init__(self) -> None:
        self.log, self.blobs = MemoryLog(), MemoryBlobs()
        self.planning = Planning(None)
        self.requests: list[dict[str, Any]] = []
        self.events: list[Event] = []

    def sent(self, number: int) -> dict[str, Any]:
        """Return what the planner was sent in this request, as data."""
        found: dict[str, Any] = json.loads(self.requests[number]["messages"][-1]["content"])
        return found

    def prompt(self, number: int) -> str:
        """Return what the planner was told in this request."""
        return str(self.requests[number]["messages"][0]["content"])


async def ask(folder: Path, *answers: Reply, configuration: Configuration | None = None) -> Asked:
    """Ask for a plan of REQUEST in a folder with one file."""
    asked = Asked()
    (folder / "a.txt").write_text("teh cat\n")
    async with ScriptedServer(*answers) as server:
        model = model_at(server)
        setting = SessionOptions(
            workspace=folder, model=model, log=asked.log, blobs=asked.blobs, person=ScriptedPerson([]), environ={}
        )
        opened = await open_session(setting)
        asked.planning = await make_plan(opened.session, REQUEST, model, configuration or default_configuration())
        asked.events = list(await asked.log.read(opened.name))
        await opened.close()
        await model.close()
        asked.requests = server.requests
    return asked


async def test_the_first_request_asks_for_few_small_tasks_in_the_strict_form_and_offers_nothing_to_call(
    tmp_path: Path,
) -> None:
    asked = await ask(tmp_path, message(GOOD))
    (request,) = asked.requests
    assert "tools" not in request
    assert request["response_format"]["json_schema"]["strict"] is True
    assert request["response_format"]["json_schema"]["schema"] == strict_schema(WirePlan)
    assert asked.prompt(0) == PLANNER
    sent = asked.sent(0)
    assert (sent["request"], sent["tasks"]) == (REQUEST, {"min": 3, "max": 7})
    assert "a.txt" in sent["workspace"]
    assert {"read_file", "edit_file"} <= {tool["name"] for tool in sent["tools"]}
    assert asked.planning.plan is not None
    assert [task.id for task in asked.planning.plan.tasks] == [1, 2]


async def test_how_many_tasks_and_tries_there_may_be_is_configured(tmp_path: Path) -> None:
    configuration = default_configuration()
    planning = configuration.planning.model_copy(update={"min_tasks": 1, "max_tasks_asked": 2, "planning_tries": 1})
    asked = await ask(tmp_path, message("no"), configuration=configuration.model_copy(update={"planning": planning}))
    assert asked.sent(0)["tasks"] == {"min": 1, "max": 2}
    assert (asked.planning.plan, asked.planning.tries) == (None, 1)


def test_the_planner_is_told_the_form_of_a_condition_that_can_be_read() -> None:
    from foregate.agent.planning.condition import MATCHERS, find_problems

    assert all(f"`{name}`" in PLANNER for name in MATCHERS)
    example = PLANNER.split('has "')[1].split('",')[0].replace("\\", "")
    assert list(find_problems(json.loads(example))) == []


SPOILT = {
    "empty": (message(""), "plan", "empty"),
    "cut off": (message(GOOD[:80], finish="length"), "answer", "cut off"),
    "cut off where it would be read": (message(GOOD, finish="length"), "answer", "cut off"),
    "declined": (message(None, refusal="I will not do that."), "answer", "I will not do that."),
    "filtered": (message("", finish="content_filter"), "answer", "declined"),
    "a call": (message(None, finish="tool_calls", tool_calls=[CALL]), "answer", "read_file"),
    "prose": (message("I would first read the file."), "plan", "no plan"),
    "a list of words": (message('["read", "edit"]'), "task", "not a mapping"),
    "another shape": (message('{"plan": {"tasks": []}}'), "plan", "unknown"),
    "a circle": (message(LOOPED), "depends_on", "later"),
    "no such tool": (message(wire({"action": "peruse_file"})), "action", "no tool"),
    "outside": (message(wire({"action": "read_file", "target": "../x"})), "target", "outside"),
    "twice the same key": (message('{"goal": "g", "goal": "h", "tasks": []}'), "plan", "twice"),
}


@pytest.mark.parametrize(("spoilt", "field", "says"), SPOILT.values(), ids=SPOILT)
async def test_an_answer_that_is_no_plan_is_asked_for_again_with_what_was_wrong(
    tmp_path: Path, spoilt: Reply, field: str, says: str
) -> None:
    asked = await ask(tmp_path, spoilt, message(GOOD))
    assert asked.planning.plan is not None
    assert asked.planning.tries == 2
    told = asked.sent(1)["defects"]
    assert any(one["field"] == field and says in one["problem"] for one in told), told
    assert all(one["remedy"] for one in told)
    assert asked.prompt(1).startswith(PLANNER)
    assert asked.prompt(1) != PLANNER


@pytest.mark.parametrize(
    "around", ["Here is the plan:\n{}\nShall I?", "```json\n{}\n```", "<think>hm</think>\n{}", "\n {} \n"]
)
async def test_a_plan_among_words_is_taken_at_the_first_try(tmp_path: Path, around: str) -> None:
    asked = await ask(tmp_path, message(around.replace("{}", GOOD)))
    assert asked.planning.plan is not None
    assert asked.planning.tries == 1


async def test_the_last_try_is_simpler_and_takes_the_simple_form(tmp_path: Path) -> None:
    simple = {"goal": "Look", "steps": [{"tool": "read_file", "args": {"path": "a.txt"}, "description": "Look"}]}
    asked = await ask(tmp_path, message("{"), message(LOOPED), message(json.dumps(simple)))
    assert asked.planning.plan is not None
    assert asked.planning.tries == 3
    assert asked.prompt(2) == SIMPLER
    assert "response_format" not in asked.requests[2]
    assert {one["field"] for one in asked.sent(2)["defects"]} == {"depends_on"}


@pytest.mark.parametrize(
    ("answer", "wrong", "advice"),
    [
        ("{", "not valid JSON", "Ask for one thing at a time, such as: Read a.txt"),
        (LOOPED, "comes later", "Say what comes first"),
        (wire({"action": "peruse_file"}), "no tool `peruse_file`", "Say what is to be done with what"),
        (wire({"action": "read_file", "target": "/etc/passwd"}), "outside the workspace", "Name each file by its path"),
    ],
)
async def test_after_the_last_try_the_person_is_asked_with_what_was_wrong_and_another_wording(
    tmp_path: Path, answer: str, wrong: str, advice: str
) -> None:
    asked = await ask(tmp_path, *[message(answer)] * 3)
    assert (asked.planning.plan, asked.planning.tries) == (None, 3)
    assert asked.planning.defects
    assert wrong in asked.planning.question
    assert advice in asked.planning.question
    assert bodies(asked.events, TaskPaused) == [TaskPaused(reason="needs_input", question=asked.planning.question)]
    assert all(event.kind != "plan_proposed" for event in asked.events)


async def test_every_request_and_every_answer_is_in_the_log(tmp_path: Path) -> None:
    answers = ["{", LOOPED, GOOD]
    asked = await ask(tmp_path, *map(message, answers))
    raised = [body for body in bodies(asked.events, NeedRaised) if body.need.gate == GATE]
    given = [body for body in bodies(asked.events, NeedAnswered) if body.answer.gate == GATE]
    sent = [strict_json.parse(asked.blobs.get(body.request).decode()) for body in raised]
    assert sent == [asked.sent(number) for number in range(3)]
    assert [asked.blobs.get(body.response or "").decode() for body in given] == answers


async def test_a_model_that_fails_is_no_defect_of_a_plan(tmp_path: Path) -> None:
    asked = await ask(tmp_path, failure(400, "context too long"), message(GOOD))
    assert asked.planning.plan is not None
    assert asked.prompt(1) == PLANNER
    assert "defects" not in asked.sent(1)


async def test_the_planner_is_told_of_so_many_defects_and_no_more(tmp_path: Path) -> None:
    asked = await ask(tmp_path, message(wire(*[{"action": f"tool{n}"} for n in range(190)])), message(GOOD))
    assert len(asked.sent(1)["defects"]) == 50


def test_another_wording_is_proposed_whatever_was_asked_and_wrong() -> None:
    for query in ("", "and", "; ;", "Mend it", "a" * 10_000, "\x1b[2J, b"):
        for field in ("plan", "model", "answer", "tasks", "calls.1.arguments", "calls.1.arguments.path", "id", "odd"):
            said = suggest_rewording(query, [PlanDefect(1, field, "p", "r")])
            assert "such as: " in said
            assert said.isprintable()
            assert len(said) < 300
