"""A plan of several steps on one host costs one planner and at most one yes, however its calls come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import foregate
from foregate import Agent
from foregate.agent.tools.tool import Tool
from foregate.policy.source.load import load_policy_layers, resolve_policy_file
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.testing import MemoryLog, ScriptedPerson, answers, calls, says
from tests.agent.world import ACCEPT

PAGES = [f"https://lake.example/posts/{number}" for number in (1, 2, 3)]
STEPS = [{"tool": "post_page", "target": page, "description": "post a draft"} for page in PAGES]
PLAN = {
    "goal": "post the three drafts to the lake",
    "success_criteria": ["each page shows its draft"],
    "first_action": STEPS[0],
    "requires_verification": True,
    "risky_actions": ["what is posted is public"],
    "version": 1,
    "planned_steps": STEPS,
}
ASKED = f"Post my drafts: the first to {PAGES[0]} and the second to {PAGES[1]}, then the third to {PAGES[2]}."
SAYING = "I will now post the drafts to the lake, as you asked."


class Writer:
    """A model that takes its chat and its plans, the last of which it keeps to, from lists.

    `asked` counts what it was asked for.
    """

    name = "writer"

    def __init__(self, chat: Sequence[ModelResponse], *plans: dict[str, object]) -> None:
        self.chat, self.plans, self.asked = list(chat), list(plans), Counter[str]()

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        self.asked[request.purpose] += 1
        if request.purpose == "chat":
            return self.chat.pop(0)
        if request.purpose == "critique":
            return answers(ACCEPT)
        return answers(self.plans.pop(0) if len(self.plans) > 1 else self.plans[0])


async def post(root: Path, model: Writer, policy: str, replies: Sequence[str]) -> list[str]:
    """Ask for the three posts; return the pages that were posted."""
    posted: list[str] = []

    @foregate.tool(effect="send", external=True, targets={"page": "url"}, texts=("text",))
    def post_page(page: str, text: str) -> str:
        """Post a page."""
        posted.append(page)
        return "posted"

    tool: Tool = post_page
    chosen = load_policy_layers(resolve_policy_file(policy)).policy
    person = ScriptedPerson(replies)
    async with Agent(model=model, tools=[tool], workspace=root, person=person, policy=chosen, log=MemoryLog()) as agent:
        await agent.run(ASKED)
    person.finish()
    return posted


@pytest.mark.parametrize("policy", ["classic", "balanced"])
@pytest.mark.parametrize("at_once", [True, False], ids=["in one response", "one after another"])
async def test_three_posts_of_one_plan_cost_one_planner_and_one_yes_at_most(
    tmp_path: Path, policy: str, at_once: bool
) -> None:
    wanted = [("post_page", {"page": page, "text": "a draft"}) for page in PAGES]
    responses = [calls(*wanted, text=SAYING)] if at_once else [calls(one, text=SAYING) for one in wanted]
    model = Writer([*responses, says("Posted."), says("Posted.")], PLAN)
    assert await post(tmp_path, model, policy, ["yes"] * (policy == "classic")) == PAGES
    assert (model.asked["plan"], model.asked["critique"]) == (1, int(policy == "classic"))


async def test_a_call_is_run_once_its_planner_says_what_a_plan_has_to_though_it_said_nothing_twice(
    tmp_path: Path,
) -> None:
    plans = [{**PLAN, "goal": ""}, {**PLAN, "goal": ""}, PLAN]
    wanted = calls(("post_page", {"page": PAGES[0], "text": "a draft"}), text=SAYING)
    model = Writer([wanted] * 2 + [says("Posted.")], *plans)
    assert await post(tmp_path, model, "classic", ["yes"]) == PAGES[:1]
    assert model.asked["plan"] == 3
