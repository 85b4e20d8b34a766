"""Judging without executing: for programs that run tools themselves and want Foregate's verdict first.

Survey the calls, build the turn, judge it. A Need says what a gate must be told first; its answer goes into the turn,
which is then judged again. All of it is pure but the survey, so the same turn gives the same judgement anywhere.

Example:
    policy, catalogue = foregate.default_policy(), foregate.build_catalogue([spec])
    response = foregate.ModelResponse("I read it.", (foregate.ToolCall.of("read_file", {"path": "a.txt"}),))
    surveys = foregate.survey(response, catalogue, request="read a.txt", workspace=".")
    turn = foregate.build_turn(response, surveys, request="read a.txt", policy=policy, catalogue=catalogue)
    judgement = foregate.judge(turn, policy, catalogue)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from foregate.agent.session.interaction import build_answer
from foregate.agent.session.prompts import PROMPTS_HASH
from foregate.agent.session.session_log import utc_now
from foregate.agent.survey.surveyor import Surveyor
from foregate.agent.tools.custom_source import CustomToolSource
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.local import LocalWorkspace
from foregate.evidence.state.session import SessionState
from foregate.gates.prelude import build_prelude
from foregate.gates.prelude import judge as judge_by
from foregate.policy.policy import Policy
from foregate.policy.source.load import default_policy
from foregate.schemas.errors import UsageError
from foregate.schemas.judgement import Judgement, Need
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import ToolSource
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Origin, Survey
from foregate.schemas.tool_spec import Catalogue, hash_catalogue
from foregate.schemas.turn import EDITION, Said, Turn

RESPONSE = 1
"""The event number a response has that stands in no log: its calls are `c1.1`, `c1.2` and so on."""


def survey(
    response: ModelResponse,
    catalogue: Catalogue,
    *,
    request: str | Sequence[str] = (),
    workspace: Path | str = ".",
    tools: ToolSource | None = None,
    policy: Policy | None = None,
) -> tuple[Survey, ...]:
    """Return what the calls of a response name, as the workspace has it now; nothing is run.

    `request` is what the person said: names in it count as theirs. `tools` are asked for their own view of an effect.
    Raises WorkspaceError where there is no such folder, UsageError where `tools` are no source.
    """
    with closing(LocalWorkspace(workspace)) as folder:
        state = SessionState()
        for text in _texts(request):
            state.atoms.add_text(text, Origin.USER, 0)
        source = CustomToolSource(tools) if tools is not None else Toolbox([])
        surveyor = Surveyor(folder, source, policy or default_policy(), catalogue)
        return surveyor.survey(response.stamp_calls(RESPONSE).calls, state)


def build_turn(
    response: ModelResponse,
    surveys: Sequence[Survey],
    *,
    catalogue: Catalogue,
    policy: Policy | None = None,
    request: str | Sequence[str] = (),
    now: str = "",
    attended: bool = False,
    **known: Any,
) -> Turn:
    """Return the turn a judge reads of a response, its calls numbered `c1.1`, `c1.2` and so on.

    `surveys` are in the order of the calls. `attended` says that a person can be asked. `now` is UTC text, the present
    where it is "". `known` are further fields of Turn, such as `plan`, `grants` or `counters`, as far as there are any.
    Raises UsageError where the surveys are not as many as the calls.
    """
    calls = response.stamp_calls(RESPONSE).calls
    if len(surveys) != len(calls):
        raise UsageError(f"there are {len(calls)} calls and {len(surveys)} surveys; give one survey for each call")
    return Turn(
        response=RESPONSE,
        task=1,
        turn=1,
        now=now or utc_now(),
        policy_hash=(policy or default_policy()).hash,
        catalogue_hash=hash_catalogue(catalogue.values()),
        prompts_hash=PROMPTS_HASH,
        calls=calls,
        surveys=tuple(replace(found, call=call.id) for found, call in zip(surveys, calls, strict=True)),
        text=response.text,
        user_messages=tuple(Said(0, text) for text in _texts(request)),
        attended=attended,
        **{"narrated": len(response.text.strip()), "edition": EDITION, **known},
    )


def judge(turn: Turn, policy: Policy, catalogue: Catalogue) -> Judgement | Need:
    """Return the judgement of a turn, or the Need a gate has first. Reads nothing but its arguments, runs nothing."""
    return judge_by(turn, build_prelude(policy, catalogue))


def answer_need(turn: Turn, need: Need, value: Mapping[str, Json] | None, *, error: str = "") -> Turn:
    """Return the turn with a Need answered, bound to what it was asked about; judge it again then.

    `value` is the planner's plan, the critic's verdict or, of a person, that of a Reply, such as `Reply("yes").value`;
    None says that there is no usable answer, and `error` why.
    """
    answer = build_answer(need, turn, value, error, turn.now, len(turn.answers) + RESPONSE + 1)
    return replace(turn, answers=(*turn.answers, answer))


def _texts(request: str | Sequence[str]) -> tuple[str, ...]:
    return (request,) if isinstance(request, str) else tuple(request)
