"""What a plan under way shows at a terminal: a line for each task that comes to something, and the end."""

from __future__ import annotations

from foregate.agent.planning.configuration import FormattingSection
from foregate.agent.planning.plan_report import report_of
from foregate.agent.planning.plan_state import PlanState
from foregate.cli.plan_sheet import report_rows, step_rows, title
from foregate.cli.rows import compression
from foregate.cli.screen import Screen
from foregate.schemas.event import Event


class Progress:
    """Listens to a session and follows its plan. With `ends` it also says how a run of the plan ended."""

    def __init__(
        self, screen: Screen, formatting: FormattingSection, state: PlanState | None = None, *, ends: bool = False
    ) -> None:
        self.screen, self.formatting, self.ends = screen, formatting, ends
        self.state = state or PlanState()

    def hear(self, event: Event) -> None:
        """Take in an event, and show what it says of a task."""
        ran = self.state.running
        self.state.apply(event)
        if event.session != self.state.session:
            return
        width = self.screen.console.width
        if event.kind == "plan_proposed":
            for note in event.body.get("notes", ()):
                self.screen.row(f"  note: {note}", "dim")
        elif event.kind == "tool_started" and ran:
            self.screen.busy(f"{event.body['tool']} {event.body['target']}".strip())
        elif event.kind == "plan_step_changed" and event.body["plan"] == self.state.digest:
            step = self.state.steps[event.body["step"]]
            if step.status == "running":
                if left_out := event.body.get("ask", {}).get("context"):
                    self.screen.row(f"  context {compression(left_out)}", "dim")
                self.screen.busy(f"{step.task.id}. {title(step.task)}")
            elif step.status != "pending":
                self.screen.idle()
                self.screen.rows(step_rows(step, step.result, width))
        elif self.ends and ran and event.kind in ("task_ended", "plan_proposed"):
            self.screen.idle()
            report = report_of(self.state, self.formatting, self.state.status, event.body.get("note", ""))
            self.screen.rows(report_rows(report, width))
