"""The sheet of a plan: what a person must see before saying yes, and the outcome afterwards."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from foregate.agent.planning.answering import PlanReport, build_report
from foregate.agent.planning.asking import sentence
from foregate.agent.planning.condition import describe_condition
from foregate.agent.planning.configuration import FormattingSection
from foregate.agent.planning.control import get_plan_state
from foregate.agent.planning.outlook import CallPreview, PlanPreview, preview_plan
from foregate.evidence.state.plan import PlanState, StepState, shorten_reason
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Event
from foregate.schemas.event_body import TaskEnded, ToolStarted
from foregate.schemas.judgement import Need
from foregate.schemas.plan import ScopeItem
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import Json, as_texts, get_int, get_list, get_object, get_text
from foregate.schemas.task_plan import PlanDefect, PlanProposed, PlanStepChanged, PlanTask, TaskPlan, TaskResult
from foregate.views.terminal.blocks import find_lookalikes, fit_rows
from foregate.views.terminal.event_rows import describe_compression
from foregate.views.terminal.layout import BAD, CARE, GOOD, format_hanging, format_labelled
from foregate.views.terminal.pages import show_pages
from foregate.views.terminal.plan_finding import edit_plan
from foregate.views.terminal.screen import Screen
from foregate.views.terminal.sheet import build_argument, is_long
from foregate.views.terminal.terminal import Terminal

if TYPE_CHECKING:
    from foregate.agent.session.session import Session


KEYS = "y yes, exactly this   n no   d details   e edit   s yes, but ask before each task"
FAILURE_KEYS = "g continue with what does not depend on it   r retry it   b roll back   s stop   Ctrl-D later"
_FAILURE_WORDS = {"g": "go_on", "go on": "go_on", "r": "retry", "retry": "retry"}
_FAILURE_WORDS |= {"b": "roll_back", "roll back": "roll_back", "s": "stop", "stop": "stop"}
_COLOURS = {"done": GOOD, "failed": BAD, "aborted": CARE, "skipped": "dim", "paused": CARE}


def format_plan_sheet(
    state: PlanState, looked: PlanPreview, *, details: bool = False, width: int = 80
) -> Iterator[Text]:
    """Yield the lines of the sheet in `width` columns; with `details` nothing is cut.

    Whatever is not Foregate's own stands behind a label or a bar, so that no text can pose as a row.
    """
    plan = state.current_plan
    yield from format_labelled("plan", plan.goal or "(no goal given)", width, "bold")
    if plan.query and plan.query != plan.goal:
        yield from format_labelled("request", plan.query, width)
    for step in state.steps.values():
        if step in state.open:
            leave = looked.find_permission(step.task.id)
            yield from format_task(step.task, looked.of(step.task.id), leave, details=details, width=width)
        else:
            title = f"{_build_title(step.task)} ({step.status} already)"
            yield from format_labelled(f"{step.task.id}", title, width, "dim")
    yield from format_summary(plan, looked, width)


def format_task(
    task: PlanTask,
    calls: Sequence[CallPreview],
    leave: ScopeItem | None = None,
    *,
    details: bool = False,
    width: int = 80,
) -> Iterator[Text]:
    """Yield the lines of one task: its reason, what it waits for, its calls; without any what a yes covers."""
    yield from format_labelled(f"{task.id}", _build_title(task), width, "bold")
    if task.depends_on:
        yield from format_labelled("after", f"task {_join(task.depends_on)}", width)
    if task.when is not None:
        yield from format_labelled("only if", describe_condition(task.when), width)
    if not task.calls:
        what = f"{task.action} {task.target}".strip() or "what the task says"
        yield from format_labelled("calls", f"filled in by the model when its turn comes: {what}", width, CARE)
    if leave is not None:
        what = f"to {leave.effect.value} {leave.kind.value} {leave.pattern} with {leave.tool}"
        told = f"is leave {what}, {leave.uses} times at most, for this task alone"
        yield from format_labelled("your yes", told, width)
    for call in calls:
        facts = call.facts
        way_back = "can be undone" if not facts.irreversible else "CANNOT be undone"
        deletes = ", and it deletes" if call.deletes else ""
        effect = f"{facts.effect.value}{deletes}{f', {way_back}' if facts.changes else ''}"
        yield from format_labelled("call", f"{call.planned.tool} {facts.target}".strip(), width)
        yield from format_labelled("effect", effect, width)
        for why in call.dangers:
            yield from format_labelled("DANGER", why, width, BAD, label_style=BAD)
        for name, value in list_arguments(call):
            yield from build_argument(name, value, width, details=details).rows
        for odd in find_lookalikes([facts.target, *(value for _, value in list_arguments(call))]):
            yield from format_labelled("note", odd, width, "dim")
        if details and call.planned.description:
            yield from format_labelled("says", call.planned.description, width)
    if details and task.expected_outcome:
        yield from format_labelled("expects", task.expected_outcome, width)


def format_summary(plan: TaskPlan, looked: PlanPreview, width: int) -> Iterator[Text]:
    """Yield what is true of the whole plan: what is dangerous, what stays, what it costs, what follows a failure."""
    dangerous = sorted({call.task for call in looked.calls if call.dangers})
    stays = sorted({call.task for call in looked.calls if call.facts.changes and call.facts.irreversible})
    if dangerous:
        yield from format_labelled("danger", f"task {_join(dangerous)}", width, BAD, label_style=BAD)
    if stays:
        yield from format_labelled("stays", f"what task {_join(stays)} does cannot be taken back", width, BAD)
    told, asks = "none, every call is listed", len(looked.open_tasks)
    if asks:
        named = f"task {_join(task.id for task in looked.open_tasks)}"
        unknown = f"{named}: its calls are not known yet; but for what stands there your yes is no leave"
        yield from format_labelled("open", unknown, width, CARE)
        told = f"about {asks} request{'s' if asks != 1 else ''} to fill in calls"
    yield from format_labelled("models", told, width)
    if plan.estimated_duration:
        yield from format_labelled("time", f"{plan.estimated_duration} s, as the plan says", width)
    yield from format_labelled("failure", plan.on_failure.replace("_", " "), width)


def _join(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def is_plan_cut(looked: PlanPreview) -> bool:
    """Whether the first view of the sheet leaves anything of the arguments out."""
    return any(is_long(value) for call in looked.calls for _, value in list_arguments(call))


def list_arguments(call: CallPreview) -> Iterator[tuple[str, str]]:
    """Yield name and value of each argument; a text stands for itself, every other value is JSON."""
    for name, value in call.planned.arguments.items():
        yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _build_title(task: PlanTask) -> str:
    return task.reason or f"{task.action} {task.target}".strip() or "a task"


def _format_step(step: StepState, result: TaskResult, width: int) -> Iterator[Text]:
    seconds = f", {result.duration_ms / 1000:.1f} s" if result.duration_ms >= 100 else ""
    why = f": {result.error}" if result.error else ""
    told = f"{step.task.id}. {_build_title(step.task).rstrip('.')}{seconds}{why}"
    yield from format_labelled(step.status, told, width, label_style=_COLOURS.get(step.status, "dim"), room=8)


def format_step_outcome(step: StepState, width: int) -> Iterator[Text]:
    """Yield the line of a task, and for each of its calls how it ended and the beginning of what it gave."""
    yield from _format_step(step, step.result, width)
    for call in step.calls:
        yield from format_labelled(call.status.replace("_", " "), f"{call.tool} {call.target}".strip(), width)
        gave = call.why or shorten_reason(call.text)
        if gave:
            yield from build_argument("gave", gave, width, details=True).rows
    if step.words and not step.calls:
        yield from build_argument("said", shorten_reason(step.words), width, details=True).rows


def format_failure(step: StepState, width: int) -> Iterator[Text]:
    """Yield what failed: the task, and each call of it that did not do what it is for."""
    told = f"{step.task.id}. {_build_title(step.task)}: {step.reason}"
    yield from format_labelled("failed", told, width, BAD, label_style=BAD)
    for call in step.newest_calls:
        if not call.is_settled:
            yield from format_labelled("call", f"{call.tool} {call.target}: {call.why or call.status}", width)


def format_report(report: PlanReport, width: int) -> Iterator[Text]:
    """Yield how a plan ended or paused."""
    colour = GOOD if report.status == "completed" else CARE
    told = [f"{count} {status}" for status, count in Counter(task.status for task in report.tasks).items()]
    room = max(9, len(report.status))
    took = ", ".join((*told, f"{report.duration_ms / 1000:.1f} s of work"))
    status = report.status.replace("_", " ")
    yield from format_labelled(status, took, width, label_style=colour, room=room)
    if report.reason:
        yield from format_labelled("because", report.reason, width)
    for task in report.tasks:
        if task.reasoning:
            yield from format_labelled("thought", f"task {task.task}: {task.reasoning}", width, "dim")


def format_defects(defects: Sequence[PlanDefect], label: str, width: int) -> Iterator[Text]:
    """Yield a line for each thing that is wrong with a plan."""
    colour = BAD if label == "defect" else CARE
    for defect in defects:
        yield from format_labelled(label, sentence(defect), width, label_style=colour)


class PlanProgressRows:
    """Listens to a session and follows its plan. With `ends` it also says how a run of the plan ended."""

    def __init__(self, screen: Screen, formatting: FormattingSection, state: PlanState, *, ends: bool = False) -> None:
        self.screen, self.formatting, self.state, self.ends = screen, formatting, state, ends

    def show_event(self, event: Event) -> None:
        """Take in an event, and show what it says of a task."""
        ran = self.state.running
        self.state.apply(event)
        if event.session != self.state.session:
            return
        match event.body:
            case PlanProposed(notes=notes):
                for note in notes:
                    self.screen.row(f"  note: {note}", "dim")
            case ToolStarted(tool=tool, target=target) if ran:
                self.screen.busy(f"{tool} {target}".strip())
            case PlanStepChanged() as body if body.plan == self.state.digest:
                self._show_step(body)
            case TaskEnded(note=note) if self.ends and ran:
                self.screen.idle()
                report = build_report(self.state, self.formatting, self.state.status, note)
                self.screen.rows(format_report(report, self.screen.console.width))
                self.screen.has_told_end = True
            case _:
                pass

    def _show_step(self, body: PlanStepChanged) -> None:
        step = self.state.steps[body.step]
        if step.status == "running":
            if body.ask is not None and body.ask.context is not None:
                self.screen.row(f"  context {describe_compression(body.ask.context)}", "dim")
            self.screen.busy(f"{step.task.id}. {_build_title(step.task)}")
        elif step.status != "pending":
            self.screen.idle()
            self.screen.rows(_format_step(step, step.result, self.screen.console.width))


class PlanPerson:
    """Answers what is asked about a plan by showing a sheet, never by accident: Enter alone is no answer."""

    def __init__(self, session: Session, screen: Screen, terminal: Terminal) -> None:
        self.session, self.screen, self.terminal = session, screen, terminal

    async def answer(self, need: Need) -> Reply | None:
        """Show what a need is about, as it stands in the log, and return the reply; see Person."""
        state, request = await get_plan_state(self.session), need.request
        self.screen.idle()
        if "failed" in request:
            return await self._after_failure(state.steps[get_int(request, "failed")])
        looked = preview_plan(self.session, state, get_int(request, "uses", 0))
        if "task" not in request:
            return await self._confirm(state, looked, request)
        number = get_int(get_object(request, "task"), "id")
        self.screen.rows(format_task(state.steps[number].task, looked.of(number), width=self._width))
        while (key := await self._read_key(f"{get_text(request, 'question')} ")) not in ("y", "yes", "n", "no"):
            self.screen.say("y or n", CARE)
        return Reply("yes" if key[0] == "y" else "no")

    @property
    def _width(self) -> int:
        return self.screen.console.width

    async def _read_key(self, prompt: str) -> str:
        """Return what the person types; Ctrl-D is no."""
        typed = await self.terminal.read_answer(prompt)
        return ("n" if typed is None else typed).strip().lower()

    async def _confirm(self, state: PlanState, looked: PlanPreview, request: Mapping[str, Json]) -> Reply:
        """Show the sheet and return the choice. A sheet that cut something takes no yes before d."""
        head: list[Text] = []
        for label, colour in (("warning", CARE), ("defect", BAD)):
            for told in as_texts(get_list(request, f"{label}s"), f"{label}s"):
                head += format_labelled(label, told, self._width, colour, label_style=colour)
        if state.number > 1:
            head.append(Text(f"a further plan, {state.number} of at most {get_int(request, 'most')}", "bold"))
        below = list(format_hanging(f"  {KEYS}", self._width, "dim"))
        rows = [*head, *format_plan_sheet(state, looked, width=self._width)]
        shown, is_cut = fit_rows(rows, self.screen.console.height - len(below), self._width)
        self.screen.rows([*shown, *below])
        unseen = is_cut or is_plan_cut(looked)
        while True:
            match await self._read_key("run this plan? "):
                case "y" | "yes" | "s" | "step" if unseen:
                    self.screen.say("not everything has been shown yet: d shows it, then y counts", CARE)
                case "y" | "yes":
                    return Reply("yes")
                case "s" | "step":
                    return Reply("step")
                case "n" | "no":
                    return Reply("no")
                case "e" | "edit":
                    try:
                        return Reply("edit", await asyncio.to_thread(edit_plan, state.current_plan))
                    except UsageError as error:
                        self.screen.row(f"foregate: {error}", BAD)
                case "d" | "details":
                    whole = [*head, *format_plan_sheet(state, looked, details=True, width=self._width)]
                    unseen = not await show_pages(self.screen, self.terminal, whole) and unseen
                case _:
                    self.screen.say(KEYS, CARE)

    async def _after_failure(self, step: StepState) -> Reply | None:
        """Show what failed and return how to go on; Ctrl-D is not now."""
        self.screen.rows(format_failure(step, self._width))
        self.screen.say(f"  {FAILURE_KEYS}", "dim")
        while (typed := await self.terminal.read_answer("how to go on? ")) is not None:
            choice, lost = _FAILURE_WORDS.get(typed.strip().lower()), step.unknown_call
            if choice == "retry" and lost:
                self.screen.row(f"whether {lost} took effect is unknown: stop, settle it, retry", CARE)
            elif choice is not None:
                return Reply(choice)
            else:
                self.screen.say(FAILURE_KEYS, CARE)
        return None
