"""A trajectory as an ATIF document. What ATIF has no place for stands under `foregate` in its `extra` objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from foregate.schemas import strict_json
from foregate.schemas.errors import UsageError
from foregate.schemas.event import FORMAT, Event, ModelResponded, TurnJudged
from foregate.schemas.judgement import Decision
from foregate.schemas.model_response import RecordedCall
from foregate.schemas.strict_json import Json
from foregate.telemetry.export.restore import LAYOUT, OFFERED, dump_sorted, is_canonical, strip_shown_parts
from foregate.telemetry.export.trajectory import Action, Trajectory, TrajectoryStep, find_pairs

VERSION = "ATIF-v1.8"
_BARE_DECISION = ("gate", "code", "mode", "numbers", "rules", "tool", "consequence", "rulings")
"""What stands of a decision where no words do."""

_ANSWERED = "seq time who gate code calls choice text error by"
"""What stands of an answer."""

Rewards = Mapping[str, Sequence[float]]
"""Per session one reward for each response."""


def build_document(trajectory: Trajectory, *, rewards: Rewards | None = None, content: bool = True) -> dict[str, Json]:
    """Return the document of a trajectory with its children; without `content` it cannot be read back into events."""
    given = list((rewards or {}).get(trajectory.session, ()))
    numbers = iter(given)
    own: dict[str, Json] = {
        "layout": LAYOUT,
        "format": FORMAT,
        "content": content,
        "started": trajectory.started,
        "last": trajectory.last,
        "depth": trajectory.depth,
        "ended": trajectory.ended,
        "head": trajectory.head,
        "masked": list(trajectory.masked),
        "tasks": [_build_task(trajectory, number) for number in range(len(trajectory.tasks))],
        "pairs": [pair.to_json() for pair in find_pairs(trajectory)],
    }
    if trajectory.parent:
        own["parent"] = trajectory.parent
    if content:
        own["workspace"] = trajectory.workspace
    if rewards is not None:
        own["reward"] = sum(given)
    rows = [(step, next(numbers, None) if step.is_response else None) for step in trajectory.steps]
    made: dict[str, Json] = {
        "schema_version": VERSION,
        "session_id": trajectory.session,
        "trajectory_id": trajectory.session,
        "agent": _build_agent(trajectory, content),
        "steps": [_build_step(step, trajectory, reward, content) for step, reward in rows],
        "final_metrics": _build_totals(trajectory),
        "extra": {"foregate": own},
    }
    if trajectory.children:
        below = [build_document(child, rewards=rewards, content=content) for child in trajectory.children]
        made["subagent_trajectories"] = below
    return made


def validate_document(made: Mapping[str, Json]) -> None:
    """Check a document with the models of the package `atif`; raise UsageError where that is missing or refuses it."""
    try:
        from atif import Trajectory as Model
    except ImportError:
        raise UsageError("checking ATIF needs the package `atif`; install `foregate[trajectories]`") from None
    from pydantic import ValidationError

    try:
        Model.model_validate(made)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"the document is no ATIF at `{where}`: {first['msg']}; please report this") from None


def _build_agent(trajectory: Trajectory, content: bool) -> dict[str, Json]:
    offered = OFFERED if content else ("name",)
    definitions: list[Json] = [
        {"type": "function", "function": {name: getattr(tool, name) for name in offered}} for tool in trajectory.tools
    ]
    found: dict[str, Json] = {"name": "foregate", "version": trajectory.foregate, "tool_definitions": definitions}
    if trajectory.model:
        found["model_name"] = trajectory.model
    return found


def _build_task(trajectory: Trajectory, place: int) -> dict[str, Json]:
    task = trajectory.tasks[place]
    found = {"task": task.number, "first_step": task.first, "last_step": task.last, "status": task.status}
    return found | {name: text for name, text in (("text", task.text), ("note", task.note)) if text}


def _build_step(step: TrajectoryStep, trajectory: Trajectory, reward: float | None, content: bool) -> dict[str, Json]:
    made: dict[str, Json] = {
        "step_id": step.number,
        "timestamp": step.time,
        "source": step.source,
        "message": step.message,
        "extra": {"foregate": _build_own_part(step, trajectory, reward, content)},
    }
    if step.source != "agent":
        return made
    made["llm_call_count"] = 1 if step.asked else 0
    if step.model:
        made["model_name"] = step.model
    if step.reasoning:
        made["reasoning_content"] = step.reasoning
    if step.actions:
        recorded = _index_recorded_calls(step.events)
        made["tool_calls"] = [_build_call(action, recorded.get(action.id)) for action in step.actions]
        results = [_build_result(action) for action in step.actions if action.outcome != "open"]
        if results:
            made["observation"] = {"results": results}
    if step.asked:
        usage = step.usage
        cost = {"extra": {"cost_micro_units": usage.cost}} if usage.cost else {}
        made["metrics"] = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens, **cost}
    return made


def _build_own_part(
    step: TrajectoryStep, trajectory: Trajectory, reward: float | None, content: bool
) -> dict[str, Json]:
    decisions = [
        {"address": f"{event.seq}.{decision.gate}", **_build_decision(decision, content)}
        for event in step.events
        if isinstance(event.body, TurnJudged)
        for decision in event.body.judgement.decisions
    ]
    found = _read_fields(step, "kind actor task turn cause finish_reason")
    if decisions:
        found["decisions"] = decisions
    if step.answers:
        found["answers"] = [_read_fields(answered, _ANSWERED) for answered in step.answers]
    if reward is not None:
        found["reward"] = reward
    if content:
        shown = {action.id: action.content for action in step.actions}
        found["events"] = [_build_rest(event, trajectory, shown) for event in step.events]
    return found


def _build_decision(decision: Decision, content: bool) -> dict[str, Json]:
    row = dump_sorted(decision)
    if content:
        return row
    row["rulings"] = [strict_json.dump(ruling) for ruling in decision.rulings]
    if decision.consequence is not None:
        row["consequence"] = strict_json.dump(decision.consequence)
    return {name: row[name] for name in _BARE_DECISION if name in row}


def _build_rest(event: Event, trajectory: Trajectory, shown: Mapping[str, str]) -> dict[str, Json]:
    """Return what is left of an event, with the version that wrote it where that is not the session's first."""
    rest = strip_shown_parts(event, shown)
    return rest if event.foregate == trajectory.foregate else {**rest, "foregate": event.foregate}


def _read_fields(noun: Struct, names: str) -> dict[str, Json]:
    """Return those of these fields that hold something; `key=field` names one otherwise."""
    pairs = [name.partition("=") for name in names.split()]
    return {key: value for key, _, field in pairs if (value := getattr(noun, field or key))}


def _index_recorded_calls(events: Iterable[Event]) -> dict[str, RecordedCall]:
    return {
        call.id: call
        for event in events
        if isinstance(body := event.body, ModelResponded) and body.continues is None
        for call in (body if body.program is None else body.program).calls
    }


def _build_call(action: Action, recorded: RecordedCall | None) -> dict[str, Json]:
    wire, defect = (recorded.wire_id, recorded.defect) if recorded is not None else ("", "")
    own = _read_fields(action, "standing gate code target")
    if action.remedy is not None:
        own["remedy"] = dump_sorted(action.remedy)
    if action.arguments is None or not is_canonical(action.raw, action.arguments):
        own["raw"] = action.raw
    if defect:
        own["more"] = {"defect": defect}
    if wire not in ("", action.id):
        own["wire_id"] = wire
    return {
        "tool_call_id": action.id,
        "function_name": action.name,
        "arguments": dict(action.arguments or {}),
        "extra": {"foregate": own},
    }


def _build_result(action: Action) -> dict[str, Json]:
    own = _read_fields(action, "outcome code=answer_code error resolved undone duration_ms=duration")
    if action.exit_code is not None:
        own["exit_code"] = action.exit_code
    made: dict[str, Json] = {"source_call_id": action.id, "content": action.content, "extra": {"foregate": own}}
    if action.child:
        made["subagent_trajectory_ref"] = [{"trajectory_id": action.child, "session_id": action.child}]
    return made


def _build_totals(trajectory: Trajectory) -> dict[str, Json]:
    asked = [step.usage for step in trajectory.steps if step.asked]
    advice = [answered.usage for step in trajectory.steps for answered in step.answers if answered.who != "person"]
    actions = [action for step in trajectory.steps for action in step.actions]
    return {
        "total_prompt_tokens": sum(usage.input_tokens for usage in asked),
        "total_completion_tokens": sum(usage.output_tokens for usage in asked),
        "total_steps": len(trajectory.steps),
        "extra": {
            "foregate": {
                "cost_micro_units": sum(usage.cost for usage in (*asked, *advice)),
                "advice_tokens": sum(usage.input_tokens + usage.output_tokens for usage in advice),
                "calls": len(actions),
                "ran": sum(action.has_run for action in actions),
                "held": sum(action.standing in ("hold", "deny") for action in actions),
            }
        },
    }
