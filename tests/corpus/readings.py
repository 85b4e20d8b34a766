"""Everything that is computed from a recorded log, as text; with the files it imports what names our insides.

Each function of READINGS takes a `Log`, reads it as an audit or an export would, and returns text that follows from
the log alone. When something inside Foregate is renamed or moved, these files are adapted, and neither the
recordings nor what is expected of them: the texts must stay what they are, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from msgspec import to_builtins

from foregate.cli.reports import build_summary_json
from foregate.cli.reports import format_changes as what_if_lines
from foregate.cli.reports import format_explanation as explanation_lines
from foregate.cli.reports import format_statistics as statistics_lines
from foregate.gates.plan import PLAN_REASONS
from foregate.gates.prelude import build_prelude
from foregate.gates.replay.redecide import judge_any_turn, redecide
from foregate.policy.policy import Policy
from foregate.policy.source.layers import Layer, read_layer
from foregate.policy.source.load import resolve_policy_file, restore_policy
from foregate.schemas import strict_json
from foregate.schemas.codes import CODES, CRITIQUE_REASONS, NOT_RUN, REPEATED_HOLD
from foregate.schemas.errors import ForegateError
from foregate.schemas.event_body import KINDS, get_kind
from foregate.schemas.review import AnyReviewBody
from foregate.schemas.tool_spec import build_catalogue
from foregate.telemetry.queries.decisions import DecisionPoint, build_session_notes, read_decisions
from foregate.telemetry.queries.verify import verify_session
from foregate.tuning.explanation import explain
from foregate.tuning.what_if import WhatIf
from foregate.views.terminal.timeline import ASIDE, format_aside, format_decision
from tests.corpus.commands import run_commands
from tests.corpus.exports import (
    export_atif,
    export_bare_atif,
    export_bare_sao,
    export_masked,
    export_openai,
    export_pairs,
    export_sao,
    import_atif,
    project_bare_spans,
    project_spans,
)
from tests.corpus.folds import fold_states, list_plans, list_requests, preview_undo, rebuild_turns, show_screen
from tests.corpus.log import Log, canonical, lines, text, turns_of
from tests.telemetry.queries.counted import KINDS as COUNTED
from tests.telemetry.queries.counted import FoldedStatistics

CHANGED = Path(__file__).with_name("changed.yaml")
"""A policy file that differs from the default one in many places."""
EXPLAINED = 6
"""Decisions of a session that are explained, the first of each gate and code before further ones."""


def public_names() -> dict[str, tuple[str, ...]]:
    """Return every kind of event that a session has, and every code by who gives it."""
    of_reviews = {get_kind(body) for body in get_args(AnyReviewBody)}
    codes = {gate: tuple(found) for gate, found in CODES.items()}
    return {
        "kinds": tuple(kind for kind in KINDS if kind not in of_reviews),
        **codes,
        "plan reasons": PLAN_REASONS,
        "critique reasons": CRITIQUE_REASONS,
        "not run": (*NOT_RUN, REPEATED_HOLD, "gate_error"),
    }


def verify(log: Log) -> str:
    """What `audit verify` finds, with and without a head that somebody kept."""
    found = []
    for session in log.sessions:
        for head in (None, log.head_anchor(session)):
            result = verify_session(log, session, head)
            told = {"sentence": result.sentence, "head": result.head, "proven": result.proven}
            found.append(told | strict_json.dump(result))
    return lines(found)


def count(log: Log) -> str:
    """What `audit stats` counts, over each session and over all."""
    found = FoldedStatistics()
    for session in log.sessions:
        found.add_session(session, log.events(session, kinds=COUNTED))
    return lines([found.to_json()]) + text(statistics_lines(found))


def list_decisions(log: Log) -> str:
    """The rows of `audit show --json`."""
    return lines(point.to_json() for session in log.sessions for point in points_of(log, session))


def show_decisions(log: Log) -> str:
    """What `audit show` prints, with what stands beside the decisions."""
    found = []
    for session in log.sessions:
        for event in log.events(session, kinds=("turn_judged", *ASIDE)):
            found += [row.plain for row in format_aside(event, 0)]
            found += [format_decision(point, 0).plain for point in read_decisions([event])]
    return text(found)


def note(log: Log) -> str:
    """The replay notes."""
    return lines(strict_json.dump(one) for session in log.sessions for one in build_session_notes(log.events(session)))


def judge_again(log: Log) -> str:
    """Each turn judged again under the policy it was recorded under: the bytes, and what becomes of each call."""
    found, benches = [], dict[tuple[str, str], tuple[Policy, Any, Any]]()
    for turn in turns_of(log):
        key = turn.in_force.policy_hash, turn.turn.catalogue_hash
        if key not in benches:
            policy = restore_policy(turn.in_force.policy)
            catalogue = build_catalogue(turn.in_force.catalogue)
            benches[key] = policy, build_prelude(policy, catalogue), catalogue
        policy, bench, catalogue = benches[key]
        now = judge_any_turn(turn.turn, policy, bench)
        again = redecide(turn.turn, turn.judgement, policy, bench, policy, catalogue)
        told = strict_json.dump(now)
        same = canonical(told) == canonical(strict_json.dump(turn.judgement))
        calls = {} if again.is_unchanged and not again.spared else {"differs": to_builtins(again)}
        found.append({"seq": turn.seq, "same": same, **({} if same else {"judgement": told}), **calls})
    return lines(found)


def what_if_default(log: Log) -> str:
    """Every turn judged again under the default policy."""
    return what_if(log, None, "default")


def what_if_classic(log: Log) -> str:
    """Every turn judged again under the classic policy."""
    file = resolve_policy_file("classic")
    return what_if(log, read_layer(file, file.name, trusted=True), "classic")


def what_if_changed(log: Log) -> str:
    """Every turn judged again under a policy that differs in every gate."""
    return what_if(log, read_layer(CHANGED, CHANGED.name, trusted=True), "changed")


def what_if(log: Log, layer: Layer | None, name: str) -> str:
    """Return what comes out differently under a layer over the default policy, as JSON and as people read it."""
    rows = list((judged := WhatIf(log, layer, 1)).find_changes(log.sessions))
    told = text(what_if_lines(rows, judged.tally, name, judged.name_keys))
    return lines([*(row.to_json() for row in rows), build_summary_json(judged.tally, name)]) + told


def explain_decisions(log: Log) -> str:
    """The explanation of decisions that stopped or asked something, with what would have changed them."""
    found = []
    for session, point in remarkable(log):
        told = explain(log, session, point.seq, point.gate)
        found.append(text(explanation_lines(told, 80)) + lines([told.to_json()]))
    return "".join(found)


GROUPS: Mapping[str, Sequence[Callable[[Log], str]]] = {
    "audit": (verify, count, list_decisions, show_decisions, note, explain_decisions, run_commands),
    "folds": (show_screen, fold_states, list_requests, list_plans, preview_undo),
    "judging": (rebuild_turns, judge_again, what_if_default, what_if_classic, what_if_changed),
    "exports": (
        *(project_spans, project_bare_spans, export_atif, export_bare_atif, export_masked, import_atif),
        *(export_sao, export_bare_sao, export_openai, export_pairs),
    ),
}
"""Every reading of a sound log, by what it is for."""
READINGS: Mapping[str, Callable[[Log], str]] = {
    reading.__name__: reading for readings in GROUPS.values() for reading in readings
}
"""Every reading of a sound log, by its name."""


def points_of(log: Log, session: str) -> Iterator[DecisionPoint]:
    """Yield the decisions of a session."""
    yield from read_decisions(log.events(session, kinds=("turn_judged",)))


def remarkable(log: Log) -> list[tuple[str, DecisionPoint]]:
    """Return up to EXPLAINED decisions that are no mere pass, each gate and code once before further ones."""
    first: dict[tuple[str, str], tuple[str, DecisionPoint]] = {}
    more = []
    for session in log.sessions:
        for point in points_of(log, session):
            if point.severity == "info" and point.gate != "approval":
                continue
            if (point.gate, point.code) in first:
                more.append((session, point))
            else:
                first[point.gate, point.code] = session, point
    return [*first.values(), *more][:EXPLAINED]


DAMAGED: Sequence[Callable[[Log], str]] = (
    verify,
    count,
    list_decisions,
    note,
    what_if_default,
    explain_decisions,
    export_atif,
)
"""What is read of damaged logs: what `audit` and an export would."""


def read_damage(log: Log) -> str:
    """Return what readings give of a damaged log: the digest of a long text, and the sentence where there is none."""
    found = []
    for reading in DAMAGED:
        try:
            told = reading(log)
        except ForegateError as error:
            told = f"{type(error).__name__}: {error}\n"
        except Exception:
            told = "no sentence\n"
        found.append(f"{reading.__name__}: {told if len(told) < 4000 else strict_json.sha256(told.encode())}")
    return text(found)
