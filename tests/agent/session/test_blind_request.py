"""What a planner who is to see no call is asked holds nothing of the call, and nothing that any tool returned."""

from __future__ import annotations

import asyncio
import json
import string
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel, ScriptedPerson, answers, calls, says
from foregate.agent.session.advice import read_advice
from foregate.agent.session.turn_builder import KnownWords
from foregate.gates.support.blind_planner import strip_schema
from foregate.schemas.message import ModelRequest
from foregate.schemas.plan import BlindPlan
from tests.agent.world import World
from tests.gates.blind import blind_plan
from tests.policies import policy_with

OFF = {f"{gate}.mode": "off" for gate in ("critique", "uncertainty", "narration", "evidence")}
"""Nothing keeps a call from the planner, also where it is to somebody whom nothing named exactly so."""
POLICY = policy_with({"plan.form": "blind", **OFF})
SAYS = "Look into a.txt, then tell Ben what it is about."
MARKER = st.builds(
    "".join,
    st.one_of(
        st.lists(st.sampled_from(string.ascii_lowercase), min_size=12, max_size=24),
        st.lists(st.sampled_from(string.ascii_letters + string.digits), min_size=12, max_size=24),
        st.lists(st.sampled_from(string.ascii_lowercase + "@.-/_:"), min_size=12, max_size=24),
        st.lists(
            st.sampled_from("\u03b1\u03b2\u03b3\u0434\u0436\u00e9\u00df" + string.ascii_lowercase),
            min_size=12,
            max_size=24,
        ),
    ),
)


async def play(told: str, called: str, words: str) -> list[ModelRequest]:
    """Return the planner's requests of a session in which a file says `told` and the pending call `called`."""
    world = World(files={"a.txt": f"notes\n{told}\n\nend".encode()}, policy=POLICY)
    script = [
        calls(("read_file", {"path": "a.txt"}), text=f"I look for {called}."),
        calls(("post", {"to": called, "text": f"about {told}"}), text=words),
        answers(blind_plan()),
        says("Done."),
    ]
    session = await world.open(ScriptedModel(script), ScriptedPerson(["no"]))
    await run(session, SAYS)
    await session.close()
    model: Any = session.model
    return [request for request in model.requests if request.purpose == "plan"]


@given(
    MARKER,
    MARKER,
    st.sampled_from(["{told}", "`{told}`, {called}.", "send {called} ({upper})", "a{told}b x-{called}!"]),
)
@example("aaaaaaaaaaaa", "aaaaaaaaaaa0", "{told}")
@settings(max_examples=40, deadline=None)
def test_no_stretch_of_what_a_tool_returned_or_the_call_holds_is_in_the_request(
    told: str, called: str, form: str
) -> None:
    words = "I will write to Ben about it: " + form.format(told=told, called=called, upper=told.upper())
    (request,) = asyncio.run(play(told, called, words))
    sent = "\n".join(message.text for message in request.messages[1:]).casefold()
    decoded = json.dumps(json.loads(request.messages[1].text), ensure_ascii=False).casefold()
    for marker in (told.casefold(), called.casefold()):
        for at in range(len(marker) - 7):
            assert marker[at : at + 8] not in sent
            assert marker[at : at + 8] not in decoded
    assert SAYS in json.loads(request.messages[1].text)["user_words"]


def test_what_the_model_said_in_its_own_words_is_in_the_request_with_each_outside_name_numbered() -> None:
    told, called = "zanzibarian", "eve@lake.example"
    (request,) = asyncio.run(play(told, called, f"I will write to Ben. {told} wants {called}, so {told} gets it."))
    narration = json.loads(request.messages[1].text)["narration"]
    assert "I will write to Ben." in narration
    numbers = [word for word in narration.replace("<outside ", "<").split() if word.startswith("<")]
    assert numbers[-1] == numbers[-3] != numbers[-2]


def test_a_name_is_the_persons_only_where_all_its_parts_are() -> None:
    known = KnownWords.of(["mail ann@lake.example"], ['{"output":"eve@lake.example says hello"}'])
    assert known.mask("ann@lake.example eve@lake.example hello friend 42", {}) == (
        "ann@lake.example <outside 1> <outside 2> friend <outside 3>"
    )


def test_a_stretch_over_a_hyphen_is_as_foreign_as_one_within_a_word() -> None:
    known = KnownWords.of(["write to Ben"], ["aaaaaa-aaaaa"])
    assert known.mask("aaaaaaa-aaaaab well-known", {}) == "<outside 1> well-known"


def test_a_schema_that_others_wrote_brings_names_and_types_alone() -> None:
    schema = {
        "type": "object",
        "description": "obey",
        "properties": {"title": {"type": "string", "title": "obey", "enum": ["obey"], "default": "obey"}},
        "required": ["title"],
    }
    stripped = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    assert strip_schema(schema) == stripped  # type: ignore[arg-type]


def test_a_plan_without_the_keys_that_may_be_null_is_read() -> None:
    steps = [
        {"tool": "pay", "targets": [{"said": "X"}], "bounds": [{"argument": "sum", "rule": "at_most", "value": 5}]}
    ]
    plan = blind_plan() | {"planned_steps": [{**steps[0], "description": "pay"}], "flows": None}
    plan["first_action"] = {"tool": "pay", "target": "", "description": "pay"}
    (step,) = read_advice(json.dumps(plan), BlindPlan, 6144)["planned_steps"]  # type: ignore[misc]
    assert (step["uses"], step["targets"][0]["argument"], step["bounds"][0]["value"]) == (None, None, "5")  # type: ignore[index, call-overload]
