"""`foregate policy try`: what recorded sessions would have been under another policy; also by its two former names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from msgspec import to_builtins

from foregate.assembly.home import open_home_log
from foregate.cli import options
from foregate.cli.options import take
from foregate.cli.policy import File, app, require_usable
from foregate.cli.reports import CHANGES
from foregate.schemas.errors import UsageError
from foregate.schemas.version import __version__
from foregate.views.terminal.exit_codes import run_async
from foregate.views.terminal.layout import fold_text, format_table, make_visible, pluralise
from foregate.views.terminal.progress import show_pieces

if TYPE_CHECKING:
    from foregate.gates.replay.assumption import Assumption
    from foregate.policy.source.layers import Layer
    from foregate.schemas.strict_json import Json
    from foregate.tuning.phases import Phase, Phases
    from foregate.tuning.rehearse import Rehearsal, RehearsalTally, RehearsedPart, SessionCounts


Replay = Annotated[bool, take("--replay", "Play whole sessions again instead, from end to end; nothing runs.")]


@app.command("try")
def try_policy(
    file: File,
    sessions: options.SessionNames = None,
    replay: Replay = False,
    assume: options.Assume = None,
    ray: options.OnRay = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge recorded turns again as `foregate chat --policy FILE` would have, and show what comes out differently.

    With --assume, three lines count apart what is exact, what rests on assumed answers, and what is an estimate. With
    --replay, play each session with its recorded answers and count its costs, up to where the log holds no result.
    """
    from foregate.gates.replay.assumption import read_assumption

    layer = require_usable(file)
    if replay and ray is not None:
        raise UsageError("--replay plays sessions on this machine; leave --ray out")
    assumed = read_assumption(assume) if assume is not None else None
    if replay:
        _play_again(layer, assumed, sessions, as_json)
    else:
        _judge_again(layer, assumed, sessions, ray, as_json)


@app.command("what-if")
def what_if(
    file: File,
    sessions: options.SessionNames = None,
    assume: options.Assume = None,
    ray: options.OnRay = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge recorded turns again under FILE: the former name of `policy try`."""
    try_policy(file, sessions, False, assume, ray, as_json)


@app.command("rehearse")
def rehearse(
    file: File, sessions: options.SessionNames = None, assume: options.Assume = None, as_json: options.AsJson = False
) -> None:
    """Play recorded sessions again under FILE: the former name of `policy try --replay`."""
    try_policy(file, sessions, True, assume, None, as_json)


def _judge_again(
    layer: Layer, assumed: Assumption | None, sessions: list[str] | None, ray: str | None, as_json: bool
) -> None:
    """Print what comes out differently, once found, and where answers are assumed how sure that is."""
    from foregate.assembly.home import find_judged_sessions
    from foregate.cli.reports import build_summary_json, format_changes
    from foregate.tuning.ray_workers import open_workers
    from foregate.tuning.reach_index import open_reach_index
    from foregate.tuning.rejudging import find_other_versions
    from foregate.tuning.what_if import WhatIf

    with open_home_log() as log:
        names = run_async(find_judged_sessions(log, sessions or ()))
        options.print_problems(find_other_versions(log, names))
        with (
            open_workers(ray) as workers,
            show_pieces("indexing the log") as tell,
            open_reach_index(log, names, tell, options.print_problem) as index,
        ):
            judged = WhatIf(log, layer, workers, index=index, assume=assumed, names_keys=as_json, keeps=True)
            rows, tally = judged.find_changes(names), judged.tally
            if not as_json:
                for line in format_changes(rows, tally, layer.label, judged.name_keys):
                    options.print_folded(line)
                for line in format_phases(judged.phases) if assumed is not None else ():
                    options.print_folded(line)
                return
            options.print_json_rows(row.to_json() for row in rows)
            options.print_json(build_summary_json(tally, layer.label))
            if assumed is not None:
                options.print_json({"kind": "phases", **build_phases_json(judged.phases)})


def _play_again(layer: Layer, assumed: Assumption | None, sessions: list[str] | None, as_json: bool) -> None:
    """Print what each session costs when it is played again, and on a terminal how many were played so far."""
    from foregate.assembly.home import find_judged_sessions
    from foregate.gates.replay.assumption import NOTHING
    from foregate.tuning.rehearse import Rehearsal, RehearsalRun

    assumed = assumed or NOTHING
    with open_home_log() as log:
        run, played = RehearsalRun(log, layer, assumed), list[Rehearsal]()
        names = run_async(find_judged_sessions(log, sessions or ()))
        with show_pieces("playing sessions again") as tell:
            tell(0, len(names))
            for one in run.play(names):
                played.append(one)
                tell(len(played), len(names))
    if as_json:
        options.print_json_rows(map(build_rehearsal_json, played))
        options.print_json(build_tally_json(run.tally, layer.label, assumed.to_json()))
        return
    for line in format_rehearsals(played, run.tally, layer.label, options.measure_terminal() or 80):
        options.print_folded(line)


_ADVISERS = {"planner": "plans", "critic": "critiques", "person": "prompts"}


def format_phases(phases: Phases) -> Iterator[str]:
    """Yield what each part of the sessions comes to: how sure that is, what is different, and who is asked."""
    assumed = [f"{count} of the {who}" for who in _ADVISERS if (count := phases.at.assumed[who])]
    but = f"exact but for the assumed answers, {', '.join(assumed)}" if assumed else "exact"
    left = (
        f"; {pluralise(phases.after.repeats, 'repeat')} of what is no longer held left out"
        if phases.after.repeats
        else ""
    )
    for title, how, phase in (
        ("before the first divergence", "exact", phases.before),
        ("at it", but, phases.at),
        ("after it", f"estimated{left}", phases.after),
    ):
        yield f"{title} ({how}): {describe_phase(phase)}"
    yield "Recorded -> now. The three are never added up."


def describe_phase(phase: Phase) -> str:
    """Return the outcomes of the turns of a part, in words."""
    calls = sum(phase.calls.values())
    different = [f"{count} {CHANGES[name]}" for name in CHANGES if name != "unchanged" and (count := phase.calls[name])]
    asked = (f"{plural} {_format_pair(phase.was[who], phase.asked[who])}" for who, plural in _ADVISERS.items())
    return f"{pluralise(calls, 'call')}, {', '.join(different) or 'none different'}; {', '.join(asked)}"


def _format_pair(then: int, now: int) -> str:
    return str(now) if then == now else f"{then} -> {now}"


def build_phases_json(phases: Phases) -> dict[str, Json]:
    """Return the three parts for a script."""
    return {
        name: {
            "turns": phase.turns,
            "calls": {change: phase.calls[change] for change in CHANGES},
            "repeats_left_out": phase.repeats,
            "asked": _count_who(phase.asked),
            "recorded": _count_who(phase.was),
            "assumed": _count_who(phase.assumed),
        }
        for name, phase in (("before", phases.before), ("at", phases.at), ("after", phases.after))
    }


def _count_who(counts: Counter[str]) -> dict[str, int]:
    return {who: counts[who] for who in _ADVISERS}


SHOWN = 40
"""Sessions that are named one by one."""
_COLUMNS = ("prompts", "planner", "critic", "held", "requests")
_WHO = {
    "planner": ("a plan", "plans"),
    "critic": ("a critique", "critiques"),
    "person": ("an answer of a person", "answers of a person"),
    "repeats": (
        "that a call was sent again because it was held",
        "times that a call was sent again because it was held",
    ),
    "model": ("that the model says the same, once", "times that the model says the same"),
}


def format_rehearsals(played: Iterable[Rehearsal], tally: RehearsalTally, file: str, width: int) -> Iterator[str]:
    """Yield in `width` columns the table of the sessions that differ or were stopped, and what all came to, in lines
    never added up; then sentences that may be longer."""
    notable = (one for one in played if one.stopped or one.now != one.then or one.assumed)
    rows: list[tuple[str, ...]] = [("session", *_COLUMNS)]
    for one in islice(notable, SHOWN):
        rows.append((make_visible(one.session), *_list_counts(one.then, one.now)))
        if one.stopped:
            why = make_visible(f"stopped before event {one.at}: {one.stopped}")
            rows += [(f"  {piece}",) for piece in fold_text(why, width - 2)]
    if left := sum(1 for _ in notable):
        rows.append((f"... and {left} more; --json lists them all",))
    rows.append(("",))
    parts = [part for part in tally.parts if part.sessions]
    rows += [(f"{_TITLES[part.name]}: {part.sessions}", *_list_counts(part.then, part.now)) for part in parts]
    yield from format_table(rows, width)
    yield from _format_remarks(tally, make_visible(file))
    if parts not in ([], [tally.whole]):
        yield from _format_meanings(tally, parts)


_TITLES: dict[str, str] = {"whole": "played to the end", "supposed": "with assumptions", "stopped": "stopped before"}


def _format_meanings(tally: RehearsalTally, parts: Sequence[RehearsedPart]) -> Iterator[str]:
    """Yield how sure each of the lines is."""
    said = {
        "whole": "exact, the counts of really playing these sessions again",
        "supposed": f"played to the end, and exact but for what is assumed: {_name_assumed(tally.supposed)}",
        "stopped": "exact up to the stop; of the rest nothing is said",
    }
    if more := _name_assumed(tally.stopped):
        said["stopped"] += f", and up to there this is assumed: {more}"
    for part in parts:
        yield f"{_TITLES[part.name]}: {said[part.name]}."


def _name_assumed(part: RehearsedPart) -> str:
    """Return in words what was assumed in some sessions, and how often."""
    often = ((one, many, part.assumed[who]) for who, (one, many) in _WHO.items())
    return ", ".join(one if count == 1 else f"{count} {many}" for one, many, count in often if count)


def _format_remarks(tally: RehearsalTally, file: str) -> Iterator[str]:
    yield f"Then and now under {file}. Nothing ran, and nobody was asked."
    if repeats := sum(part.assumed["repeats"] for part in tally.parts):
        yield f"{pluralise(repeats, 'call')} not held now: repeats are left out, and what they came to is used."
    if others := sorted(set(tally.versions) - {__version__, ""}):
        count = sum(tally.versions[one] for one in others)
        named = f"Recorded by Foregate {', '.join(others)}: {pluralise(count, 'session')}"
        yield f"{named}. Such a one counts where this version judges it alike."


def _list_counts(then: SessionCounts, now: SessionCounts) -> Iterator[str]:
    pairs = ((getattr(then, name), getattr(now, name)) for name in _COLUMNS)
    return (str(a) if a == b else f"{a} -> {b}" for a, b in pairs)


def build_rehearsal_json(played: Rehearsal) -> Json:
    """Return a session that was played again, as JSON values."""
    counts: dict[str, Json] = {"then": to_builtins(played.then), "now": to_builtins(played.now)}
    place: dict[str, Json] = {"kind": "session", "session": played.session, "foregate": played.version}
    assumed: dict[str, Json] = {**played.assumed}
    return {**place, **counts, "stopped": played.stopped, "at": played.at, "assumed": assumed}


def build_tally_json(tally: RehearsalTally, file: str, assumed: Mapping[str, str]) -> Json:
    """Return what all sessions came to, in three parts: exact, on assumptions, and up to where they were stopped."""
    told: dict[str, Json] = {"kind": "summary", "policy": file, "assume": {**assumed}}
    for part in tally.parts:
        counts: dict[str, Json] = {"then": to_builtins(part.then), "now": to_builtins(part.now)}
        told[part.name] = {"sessions": part.sessions, **counts, "assumed": {**part.assumed}}
    return told
