"""Write docs/reference/gates.md from the gates and their codes."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import get_args

from foregate.agent.loop.runner import judge_response
from foregate.agent.session.advice import ask_advisor
from foregate.gates.plan import PLAN_REASONS
from foregate.gates.postlude import judge_answer
from foregate.gates.prelude import build_gate, build_snapshot, join_rulings
from foregate.gates.support.blind_planner import BlindPlanner
from foregate.gates.support.call_planner import CallPlanner
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.source.load import default_policy
from foregate.schemas.codes import CODES, CRITIQUE_REASONS, GATES, MEANINGS, NOT_RUN, AnyGateCode, GateName
from foregate.schemas.judgement import find_standing
from foregate.schemas.protocols import Gate

PAGE = Path(__file__).with_name("reference") / "gates.md"
HEAD = """\
# The gates

Generated from the gates by `docs/make_gates.py`.

Foregate asks the gates in this order, each only about calls that nothing has held so far. A code is a public name, and
audits filter by it. `allow` lets the call go on, `ask` needs a person's yes, `hold` can be cured, and `deny` is final
for that call in its task. Any gate may also give `gate_error`, `not_asked_now` and `overridden`. Each gate can be
`enforce`, `shadow` (judge and record, never apply) or `off`, except the first and the last. A code's line says its
standing, its meaning, and what to do.
"""
CALM = ("_passed", "overridden", "_accepted", "_granted", "_not_required", "_let_go", "_for_execution", "unverified")
BY_POLICY = ("plan_drift", "plan_unavailable", "critique_unavailable", "critique_invalid")


def page() -> str:
    """Return the whole page."""
    parts = [HEAD, find_steps(), *(gate(name) for name in GATES), postlude(), anywhere(), not_run()]
    return "\n".join(parts)


def find_steps() -> str:
    """Return where in the source each step of a turn is, in the order in which they run."""
    gates = [(f"gate `{gate.name}`", type(gate).__call__) for gate in map(build, GATES)]
    steps: list[tuple[str, Callable[..., object]]] = [
        ("what each call is, its risk and its uncertainty", compute_turn_facts),
        *gates,
        ("what the gates said, joined by the strictest", join_rulings),
        (
            "planner, critic or person is asked for what a gate must know, and the response judged again",
            judge_response,
        ),
        ("the question to planner or critic, strict JSON of a schema", ask_advisor),
        ("the last row of a turn in which something may run", build_snapshot),
        ("the answer after changes: the postlude", judge_answer),
    ]
    rows = ["## Where each step is", "", "| step | file | function |", "|---|---|---|"]
    for what, function in steps:
        file = function.__module__.removeprefix("foregate.").replace(".", "/")
        rows.append(f"| {what} | `{file}.py` | `{function.__qualname__}` |")
    return "\n".join(rows) + "\n"


def build(name: GateName) -> Gate:
    """Return a gate of the default policy."""
    return build_gate(name, default_policy(), {})


def gate(name: str) -> str:
    """Return a gate's section: what it is for, its codes, its part of the policy."""
    about = summary(name)
    text = f"## `{name}`\n\n{about}\n\n{table(CODES[name])}\n"
    if name == "plan":
        forms = ((BlindPlanner, "blind"), (CallPlanner, "call"))
        text += "".join(f"With `plan.form: {form}`: {first_line(planner)}\n\n" for planner, form in forms)
        text += f"Reasons of `plan_rejected`, in the order they are checked: {listed(PLAN_REASONS)}.\n\n"
    if name == "critique":
        text += f"Reasons of `critique_invalid`: {listed(CRITIQUE_REASONS)}.\n\n"
    return text + f"Keys: [`{name}`](policy.md#{name}).\n"


def summary(name: str) -> str:
    """Return the first line of a gate's module, without its name."""
    said = re.sub(r"^Gate `\w+`[^:]*: ", "", first_line(import_module(f"foregate.gates.{name}")))
    return said[:1].upper() + said[1:]


def first_line(documented: object) -> str:
    """Return the first line of a docstring."""
    return (documented.__doc__ or "").split("\n", 1)[0]


def postlude() -> str:
    """Return the section of the postlude."""
    about = first_line(judge_answer)
    return f"## `postlude`\n\n{about}\n\n{table(CODES['postlude'])}\nKeys: [`postlude`](policy.md#postlude).\n"


def anywhere() -> str:
    """Return what does not belong to one gate."""
    return f"## From any gate\n\n{table((*get_args(AnyGateCode), *CODES['prelude']))}"


def not_run() -> str:
    """Return the section of calls that were not run though no gate ruled them out."""
    shown = {code for codes in CODES.values() for code in codes} | {*get_args(AnyGateCode)}
    rows = [f"- `{code}`: {join_sentences(*MEANINGS[code])}" for code in NOT_RUN if code not in shown]
    return "## Calls that did not run\n\nAnswers beside the gates' own codes.\n\n" + "\n".join(rows) + "\n"


def table(codes: tuple[str, ...]) -> str:
    """Return codes with their standing and meaning."""
    rows = (f"- `{code}` ({standing(code)}): {join_sentences(*MEANINGS[code])}" for code in codes)
    return "\n".join(rows) + "\n"


def join_sentences(meaning: str, cure: str) -> str:
    """Return what a code means, and behind it what to do where there is something to do."""
    return f"{meaning} {cure}".rstrip()


def standing(code: str) -> str:
    """Return the standing a code stands for."""
    if code.endswith(CALM):
        return "allow"
    return "by policy" if code in BY_POLICY else find_standing(code).value


def listed(names: tuple[str, ...]) -> str:
    """Return names as code."""
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
