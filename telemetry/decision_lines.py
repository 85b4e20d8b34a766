"""A diagnostic line for each call that was held or refused, each advisor that gave no advice, and each score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from foregate.schemas.event import Event, ModelResponded, TurnJudged
from foregate.schemas.judgement import Decision, Number, Standing, Verdict
from foregate.telemetry.diagnostics import SilentDiagnostics, get_diagnostics

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_NO_ADVICE = (
    *("plan_unavailable", "plan_unavailable_let_go"),
    *("critique_unavailable", "critique_invalid", "critique_skipped_budget"),
)


class DecisionLines:
    """Follows the events of sessions as they are recorded.

    A line holds names, codes and numbers, and no word of an argument, a result, a reason or an answer:

        {"code": "denied_by_rule", "decision": "20261129-0500-a1b2:12.rules", "event": "call_refused", ...}
    """

    def __init__(self, diagnostics: FilteringBoundLogger | SilentDiagnostics) -> None:
        self._diagnostics = diagnostics
        self._tools: dict[str, dict[str, str]] = {}

    def take_event(self, event: Event) -> None:
        """Write what an event says of calls that do not run, of advice and of scores; most say nothing."""
        match event.body:
            case ModelResponded(calls=calls, program=program):
                own = (*calls, *(program.calls if program is not None else ()))
                self._tools[event.session] = {call.id: call.name for call in own}
            case TurnJudged(turn=turn, judgement=judgement):
                tools = dict(self._tools.get(event.session, {}))
                tools |= {call.id: call.name for call in turn.proposed or ()}
                for verdict in judgement.verdicts:
                    self._write_verdict(f"{event.session}:{event.seq}.{verdict.gate}", verdict, tools)
                stopped = {one.gate for one in judgement.verdicts if one.standing is not Standing.ALLOW}
                for decision in judgement.decisions:
                    if decision.mode == "enforce":
                        address = f"{event.session}:{event.seq}.{decision.gate}"
                        self._write_decision(address, decision, decision.gate in stopped)
            case _:
                pass

    def _write_verdict(self, address: str, verdict: Verdict, tools: Mapping[str, str]) -> None:
        if verdict.standing is Standing.ALLOW:
            return
        ruling, numbers = verdict.ruling, [describe_number(number) for number in verdict.ruling.numbers]
        # the name of a tool that does not exist is any text of a model
        tool = "" if ruling.code == "unknown_tool" else tools.get(verdict.call, "")
        said = {"decision": address, "gate": verdict.gate, "code": ruling.code, "call": verdict.call, "tool": tool}
        what = "call_held" if verdict.standing is Standing.HOLD else "call_refused"
        self._diagnostics.info(what, **said, **({"numbers": numbers} if numbers else {}))

    def _write_decision(self, address: str, decision: Decision, stops: bool) -> None:
        """Write that advice could not be had, and each score that a gate let pass: beside a hold it stands there."""
        said = {"decision": address, "gate": decision.gate, "tool": decision.tool}
        for code, then in {one.code: one.standing.value for one in decision.rulings if one.code in _NO_ADVICE}.items():
            self._diagnostics.info("advice_unavailable", **said, code=code, then=then)
        for number in () if stops else decision.numbers:
            self._diagnostics.info("score", **said, code=decision.code, **describe_number(number))


def describe_number(number: Number) -> dict[str, str | int]:
    """Return a measured value with its bound and the key of the policy that sets it."""
    return {"name": number.name, "value": number.value, "bound": number.bound, "key": number.path}


def open_decision_lines() -> tuple[DecisionLines, ...]:
    """Return what writes the lines where FOREGATE_LOG asks for any, and nothing without it: then nobody listens."""
    diagnostics = get_diagnostics()
    return () if isinstance(diagnostics, SilentDiagnostics) else (DecisionLines(diagnostics),)
