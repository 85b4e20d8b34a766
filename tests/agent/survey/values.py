"""The values of a call, by hand: what a person said, what reads returned and what came from outside are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foregate.agent.survey.argument_values import find_values
from foregate.evidence.reads import Earlier
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.task import TaskState
from foregate.policy.policy import Policy
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_call import Origin, Survey, ToolCall
from foregate.schemas.tool_spec import (
    OBSERVER,
    Capabilities,
    Effect,
    OwnFields,
    ResourceKind,
    TargetParameter,
    ToolSpec,
)
from foregate.schemas.turn import Said

SENDS = Capabilities(external_side_effect=True, needs_approval=False, reversible=False)
GRAVE = Capabilities(external_side_effect=True, needs_approval=False, reversible=False, high_impact_write=True)
TO = TargetParameter("to", ResourceKind.MESSAGE, Effect.SEND)
SEND = ToolSpec("send", "", {"type": "object"}, Effect.SEND, SENDS, (TO,), "python", texts=("body",))
PAY = ToolSpec("pay", "", {"type": "object"}, Effect.SEND, GRAVE, (TO,), "python", amounts=("amount",))
LOOK = ToolSpec("look", "", {"type": "object"}, Effect.OBSERVATION, OBSERVER, (), "python")
UNDECLARED = ToolSpec("odd", "", {"type": "object"}, Effect.UNKNOWN, None, (), "mcp:server")
THIEF = "thief@evil.example"


def survey(
    spec: ToolSpec,
    arguments: dict[str, Any],
    said: str | Sequence[str] = "",
    *,
    reads: Sequence[str] = (),
    outside: str = "",
    own: OwnFields = (),
    asked: str = "{}",
    used: Sequence[str] = (),
    wrote: str = "",
    texts: Sequence[tuple[str, str, str]] = (),
    policy: Policy | None = None,
    before: Earlier | None = None,
) -> Survey:
    """Return what looking finds.

    `outside` came from outside, `reads` returned records, whose `own` fields their tool assigns, `used` keys are used
    up, a call `wrote` before the reads.
    `texts` are what tools returned, each with the tool and its target. What came `before` stands in the messages and
    reads of the task before this one.
    """
    state = SessionState()
    state.task = TaskState(1, 0, "", earlier=before or Earlier())
    for seq, text in enumerate([said] if isinstance(said, str) else said, 1):
        state.task.add_message(Said(seq, text, "user"), "")
        state.atoms.add_text(text, Origin.USER, seq)
    for seq, text in enumerate(reads, 20):
        state.task.reads.add(seq, "read_mails", asked, text, own)
    for seq, text in enumerate([*reads, *filter(None, [outside])], 20):
        state.atoms.add_text(text, Origin.EXTERNAL, seq)
        state.outside_since, state.heard[seq] = state.outside_since or seq, "read_mails"
    for seq, (tool, target, text) in enumerate(texts, 20):
        state.task.texts.add(seq, tool, target, "{}", text)
    state.task.uses.said.update(used)
    if wrote:
        state.written.add(10, wrote)
    return find_values(
        ToolCall.of(spec.name, arguments, id="c1"), spec, Survey("c1"), state, policy or default_policy()
    )


def sources(*given: Any, **more: Any) -> dict[str, str]:
    """Return the source of each value of a call by its path."""
    return {value.path: value.source for value in survey(*given, **more).values or ()}
