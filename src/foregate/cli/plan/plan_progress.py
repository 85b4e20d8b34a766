"""What a plan under way shows at a terminal: a line for each task that comes to something, and the end."""

from __future__ import annotations

from foregate.agent.planning.format.configuration import FormattingSection
from foregate.agent.planning.run.plan_report import build_report
from foregate.cli.plan.plan_sheet import build_title, format_report, format_step
from foregate.cli.terminal.rows import describe_compression
from foregate.cli.terminal.screen import Screen
from foregate.evidence.state.plan import PlanState
from foregate.schemas.event import Event
from foregate.schemas.event_body import TaskEnded, ToolStarted
from foregate.schemas.plan_events import PlanProposed, PlanStepChanged


class PlanProgress:
    """Listens to a session and follows its plan. With `ends` it also says how a run of the plan ended."""

    def __init__(
        self, screen: Screen, formatting: FormattingSection, state: PlanState | None = None, *, ends: bool = False
    ) -> None:
        self.screen, self.formatting, self.ends = screen, formatting, ends
        self.state = state or PlanState()

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
            case _:
                pass

    def _show_step(self, body: PlanStepChanged) -> None:
        step = self.state.steps[body.step]
        if step.status == "running":
            if body.ask is not None and body.ask.context is not None:
                self.screen.row(f"  context {describe_compression(body.ask.context)}", "dim")
            self.screen.busy(f"{step.task.id}. {build_title(step.task)}")
        elif step.status != "pending":
            self.screen.idle()
            self.screen.rows(format_step(step, step.result, self.screen.console.width))
