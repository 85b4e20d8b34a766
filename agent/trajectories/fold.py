"""From the events of a session to its trajectory: a fold that loses none of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from foregate.agent.program import Program
from foregate.agent.trajectories.sentences import sentence
from foregate.agent.trajectories.trajectory import Action, Answered, Step, TaskEnd, Trajectory
from foregate.agent.transcript import message_of
from foregate.schemas.errors import InvalidJson, LogError
from foregate.schemas.event import Event
from foregate.schemas.model_response import ModelResponse, Usage
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.telemetry.decisions import decision_points

_SAID = ("outcome_resolved", "effect_undone", "context_compressed", "plan_proposed", "plan_confirmed")
"""Kinds that are a step of their own, beside those with a handler."""
_SWITCHES = ("policy_changed", "catalog_changed")


def trajectory_of(
    events: Iterable[Event], *, children: Sequence[Trajectory] = (), masked: Sequence[int] = ()
) -> Trajectory:
    """Return the trajectory of a session's events, all of them and in order; raise LogError for one unreadable."""
    fold = Fold(children)
    for event in events:
        try:
            fold.take(event)
        except (LookupError, TypeError, ValueError, AttributeError, InvalidJson) as error:
            raise LogError(
                f"event {event.seq} of session `{event.session}` cannot be exported ({type(error).__name__}: {error}); "
                "`foregate audit verify` tells what was changed"
            ) from None
    return fold.trajectory(tuple(masked))


class Fold:
    """Takes events in order. Steps and calls are dictionaries of what their nouns will hold until the end."""

    def __init__(self, children: Sequence[Trajectory] = ()) -> None:
        self._children = {child.session: child for child in children}
        self._steps: list[dict[str, Any]] = []
        self._calls: dict[str, dict[str, Any]] = {}
        self._tasks: list[TaskEnd] = []
        self._ahead: list[Event] = []
        self._first: Event | None = None
        self._last: Event | None = None
        self._agent: dict[str, Any] | None = None
        self._need: Mapping[str, Json] = {}
        self._tools: tuple[Mapping[str, Json], ...] = ()
        self._unanswered: set[str] = set()
        self._task = 0

    def take(self, event: Event) -> None:
        """Take in one event."""
        self._first = self._first or event
        self._last = event
        if "catalogue" in event.body:
            self._tools = tuple(event.body["catalogue"])
        handler = getattr(self, f"_{event.kind}", None)
        if handler is not None:
            handler(event, event.body)
        elif event.kind in _SAID or event.kind in _SWITCHES:
            self._step(event, "system", sentence(event))
        else:
            self._join(event)

    def trajectory(self, masked: tuple[int, ...]) -> Trajectory:
        """Return what was taken in; raise LogError where there was nothing."""
        first, last = self._first, self._last
        if first is None or last is None or first.kind != "session_started":
            raise LogError("a session does not begin as one; `foregate audit verify` tells more")
        steps = tuple(self._made(number, draft) for number, draft in enumerate(self._steps, start=1))
        return Trajectory(
            session=first.session,
            started=first.time,
            last=last.time,
            foregate=first.foregate,
            model=first.body.get("model", ""),
            workspace=first.body.get("workspace", ""),
            depth=first.body.get("depth", 0),
            parent=first.body.get("parent", ""),
            ended=last.kind == "session_ended",
            head=f"{last.seq}:{last.hash}",
            tools=tuple(first.body.get("catalogue", ())),
            steps=steps,
            tasks=tuple(self._tasks),
            masked=masked,
            children=tuple(self._children.values()),
        )

    def _made(self, number: int, draft: dict[str, Any]) -> Step:
        actions = tuple(Action(**self._calls[call]) for call in draft["calls"])
        held: dict[str, Any] = {name: value for name, value in draft.items() if name != "calls"}
        for name in ("decisions", "answers", "events"):
            held[name] = tuple(held[name])
        return Step(number=number, actions=actions, **held)

    def _step(self, event: Event, source: str, message: str, *, own: bool = True, **more: Any) -> dict[str, Any]:
        """Begin a step; `own` False gives it no event, for words that stand in another step's."""
        draft: dict[str, Any] = {
            "seq": event.seq,
            "time": event.time,
            "kind": event.kind,
            "source": source,
            "actor": event.actor,
            "message": message,
            "task": self._task,
            "tools": self._tools,
            "calls": [],
            "decisions": [],
            "answers": [],
            "events": [*self._ahead, event] if own else [],
            **more,
        }
        if own:
            self._ahead = []
        self._steps.append(draft)
        if self._tasks and self._tasks[-1].number == self._task:
            self._tasks[-1] = replace(self._tasks[-1], last=len(self._steps))
        return draft

    def _join(self, event: Event, draft: dict[str, Any] | None = None) -> None:
        """Add an event to a step, the newest where none is named; before the first it waits for that."""
        draft = draft or (self._steps[-1] if self._steps else None)
        (draft["events"] if draft is not None else self._ahead).append(event)

    def _session_started(self, event: Event, body: Mapping[str, Json]) -> None:
        self._step(event, "system", body["system"])

    def _task_started(self, event: Event, body: Mapping[str, Json]) -> None:
        self._task = body["task"]
        self._tasks.append(TaskEnd(self._task, len(self._steps) + 1, len(self._steps) + 1))
        self._ahead.append(event)
        self._agent = None

    def _user_message(self, event: Event, body: Mapping[str, Json]) -> None:
        self._step(event, "user", body["text"])
        self._running()

    def _model_response(self, event: Event, body: Mapping[str, Json]) -> None:
        response = ModelResponse.from_json(body)
        if "continues" in body:  # a further stage: the calls stand, as sent, in the step of the response
            self._agent = self._owner(response.calls[0].id)
            self._join(event, self._agent)
            return
        calls = Program.read(event.seq, body["program"]).calls if "program" in body else response.calls
        asked = "places" not in body
        self._agent = self._step(
            event,
            "agent",
            response.text,
            reasoning=response.reasoning,
            asked=asked,
            model=response.model,
            finish_reason=response.finish_reason,
            usage=response.usage,
        )
        self._called(self._agent, calls)
        self._unanswered = {call.id for call in calls}

    def _called(self, draft: dict[str, Any], calls: Iterable[ToolCall]) -> None:
        for call in calls:
            draft["calls"].append(call.id)
            self._calls[call.id] = {
                "id": call.id,
                "name": call.name,
                "raw": call.raw,
                "arguments": call.arguments,
                "defect": call.defect,
                "digest": call.digest,
            }

    def _turn_judged(self, event: Event, body: Mapping[str, Json]) -> None:
        turn, verdicts = body["turn"], body["judgement"]["verdicts"]
        actor = turn.get("actor", "model")
        known = self._agent is not None and all(verdict["call"] in self._calls for verdict in verdicts)
        if known:
            draft = self._owner(verdicts[0]["call"]) if verdicts else self._agent
            assert draft is not None
            self._join(event, draft)
        else:
            draft = self._step(event, "agent", "", actor=actor, cause=turn.get("cause", 0))
            proposed = turn.get("proposed", ())
            self._called(draft, (ToolCall.parse(one["name"], one["arguments"], id=one["id"]) for one in proposed))
        if actor == "model":
            draft["turn"] = turn["turn"]
        draft["decisions"] += decision_points([event])
        for verdict in verdicts:
            self._ruled(verdict)
        if body.get("notice"):
            self._step(event, "system", body["notice"], own=False, actor="foregate")

    def _ruled(self, verdict: Mapping[str, Json]) -> None:
        ruling = verdict["ruling"]
        self._calls[verdict["call"]] |= {
            "standing": verdict["standing"],
            "gate": verdict["gate"],
            "code": ruling["code"],
            "message": ruling.get("message", ""),
            "remedy": ruling.get("remedy"),
        }

    def _owner(self, call: str) -> dict[str, Any]:
        """Return the step a call was made in."""
        return next(draft for draft in reversed(self._steps) if call in draft["calls"])

    def _need_raised(self, event: Event, body: Mapping[str, Json]) -> None:
        self._need = body["need"]
        self._join(event, self._asker(self._need))

    def _need_answered(self, event: Event, body: Mapping[str, Json]) -> None:
        answer = body["answer"]
        value, person = answer.get("value"), answer["who"] == "person"
        said = value if person and isinstance(value, dict) else {}
        asked = self._need if self._need.get("gate") == answer["gate"] else {}
        found = Answered(
            seq=event.seq,
            time=event.time,
            who=answer["who"],
            gate=answer["gate"],
            code=asked.get("code", ""),
            calls=tuple(asked.get("calls", ())),
            choice=said.get("choice", ""),
            text=said.get("text", ""),
            value=value,
            error=answer.get("error", ""),
            usage=Usage(**body.get("usage", {})),
        )
        draft = self._asker(answer)
        draft["answers"].append(found)
        self._join(event, draft)
        self._running()

    def _asker(self, question: Mapping[str, Json]) -> dict[str, Any]:
        """Return the step a question is about: the response whose calls it names, else the newest."""
        return self._agent if self._agent is not None and question.get("digests") else self._steps[-1]

    def _tool_started(self, event: Event, body: Mapping[str, Json]) -> None:
        self._join(event, self._owner(body["call"]))
        self._calls[body["call"]]["target"] = body.get("target", "")
        child = f"{event.session}.{body['call']}"
        if child in self._children:
            self._calls[body["call"]]["child"] = child

    def _tool_finished(self, event: Event, body: Mapping[str, Json]) -> None:
        self._answer(event, "finished" if body["ok"] else "failed", body["content"])
        self._calls[body["call"]] |= {
            "error": body.get("error", ""),
            "exit_code": body.get("exit_code"),
            "duration": body.get("duration", 0),
        }

    def _call_answered(self, event: Event, body: Mapping[str, Json]) -> None:
        self._answer(event, "not_run", body["message"])
        self._calls[body["call"]]["answer_code"] = body["code"]

    def _outcome_unknown(self, event: Event, body: Mapping[str, Json]) -> None:
        self._answer(event, "unknown", body["reason"])

    def _answer(self, event: Event, outcome: str, content: str) -> None:
        call = event.body["call"]
        self._join(event, self._owner(call))
        message = message_of(event, call in self._unanswered)
        self._unanswered.discard(call)
        self._calls[call] |= {"outcome": outcome, "content": content, "told": message.text if message else ""}
        if event.body.get("target"):
            self._calls[call]["target"] = event.body["target"]

    def _outcome_resolved(self, event: Event, body: Mapping[str, Json]) -> None:
        self._calls[body["call"]]["resolved"] = body["outcome"]
        self._step(event, "system", sentence(event))

    def _effect_undone(self, event: Event, body: Mapping[str, Json]) -> None:
        self._calls[body["call"]]["undone"] = True
        self._step(event, "system", sentence(event))

    def _plan_step_changed(self, event: Event, body: Mapping[str, Json]) -> None:
        if body.get("ask") or body.get("choice"):
            self._step(event, "system", sentence(event))
        else:
            self._join(event)
        if body["status"] == "running":
            self._running()

    def _task_paused(self, event: Event, body: Mapping[str, Json]) -> None:
        if body["reason"] == "needs_input":
            self._step(event, "agent", body["question"])
        else:
            self._join(event)
        self._standing(body["reason"])

    def _task_ended(self, event: Event, body: Mapping[str, Json]) -> None:
        self._step(event, "system", sentence(event))
        self._standing(body["status"], text=body["text"], note=body["note"])
        self._agent, self._task = None, 0

    def _running(self) -> None:
        if self._tasks and not self._tasks[-1].ended:
            self._standing("running")

    def _standing(self, status: str, **more: str) -> None:
        if self._tasks:
            self._tasks[-1] = replace(self._tasks[-1], status=status, **more)
