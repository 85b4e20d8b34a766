"""An agent with two tools of its own, a script in place of a model, and every ruling shown. Runs offline.

The scripted model is hasty. It orders paint before it has counted the stock, and without a word about what it is doing.
Foregate holds the order. The model then counts, says what it wants and orders again. How many it orders nobody but the
model has said, so the person names the number before the order goes out. The policy file switches off planner and
critic, because a script cannot play them.
"""

import asyncio
import tempfile
from pathlib import Path

import foregate
from foregate.testing import MemoryLog, ScriptedModel, calls, says

STOCK = {"paint": 2, "brushes": 40}


@foregate.tool(read_only=True)
def count(item: str) -> int:
    """Say how many of an item are in stock."""
    return STOCK.get(item, 0)


@foregate.tool(effect="send", external=True, amounts=["amount"])
def order(item: str, amount: int) -> str:
    """Order an item from the supplier; this cannot be taken back.

    Args:
        item: What to order.
        amount: How many.
    """
    STOCK[item] = STOCK.get(item, 0) + amount
    return f"ordered {amount} of {item}"


class Shopkeeper:
    """Answers for the user: says yes to small orders, and names how much they may be."""

    async def answer(self, need: foregate.Need) -> foregate.Reply:
        """Show each call that asks, with its reasons; approve it, and name ten where a number is to be named."""
        for call in need.request["calls"]:
            print(f"  asked     {call['tool']} {call['arguments']}: {', '.join(call['why'])}")
        named = {call["call"]: ("10",) for call in need.request["calls"] if call.get("to_name") == ["10"]}
        return foregate.Reply("yes", by="the shopkeeper", named=named)


async def main() -> foregate.RunResult:
    """Run one task and print what happens."""
    model = ScriptedModel(
        [
            calls(("order", {"item": "paint", "amount": 10})),
            calls(
                ("count", {"item": "paint"}), text="I will count the stock first, then I will order 10 cans of paint."
            ),
            calls(("order", {"item": "paint", "amount": 10})),
            says("There were 2 cans of paint left, so I ordered 10 more."),
        ]
    )
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder, "policy.yaml")
        policy.write_text("plan:\n  mode: off\ncritique:\n  mode: off\n")
        agent = foregate.Agent(
            model=model, tools=[count, order], workspace=folder, policy=policy, person=Shopkeeper(), log=MemoryLog()
        )
        async with agent:
            async for event in agent.events("We are low on paint: please order more."):
                if isinstance(event.body, foregate.ToolFinished):
                    print(f"  ran       {event.body.tool}: {event.body.content}")
                for point in foregate.read_decisions([event]):
                    if point.severity != "info":
                        print(f"  {point.address:<9} {point.code}: {point.summary}")
    assert agent.outcome is not None
    print(f"{agent.outcome.status}: {agent.outcome.text}")
    model.finish()
    return agent.outcome


if __name__ == "__main__":
    asyncio.run(main())
