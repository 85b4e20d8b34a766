"""A question that waits for a person as rows: in a list, and whole. Nothing of it that is not ours begins a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from rich.text import Text

from foregate.gates.support.replies import list_choices
from foregate.schemas import strict_json
from foregate.schemas.identity import Identity
from foregate.schemas.judgement import Need
from foregate.schemas.strict_json import Json, as_object, get_list, get_object, get_text
from foregate.views.terminal.layout import CARE, format_labelled, make_visible
from foregate.views.terminal.sheet import Prospects, build_argument, build_held, format_details

if TYPE_CHECKING:
    from foregate.agent.session.answering import Delivery
    from foregate.schemas.question import Question

_ROOM = 9


def name_asked(row: Mapping[str, Json]) -> str:
    """Return what a question is about: its calls where a yes is asked for, else its words."""
    calls = [as_object(call) for call in get_list(row, "calls")]
    names = ", ".join(f"{get_text(call, 'tool', '')} {get_text(call, 'target', '')}".strip() for call in calls)
    return names if names and get_text(row, "gate") == "approval" else get_text(row, "asks", "")


def describe_standing(row: Mapping[str, Json]) -> str:
    """Return in a word or two how a question stands."""
    if by := get_text(row, "answered_by", ""):
        return f"answered by {by[:40]}"
    return "expired" if row.get("expired") else "open"


def format_about(row: Mapping[str, Json], width: int) -> Iterator[Text]:
    """Yield which question this is, and when it was asked and expires."""
    yield from format_labelled("question", get_text(row, "question"), width, "bold", room=_ROOM)
    until = f"until {_shorten_time(row, 'expires_at')}" if row.get("expires_at") else "it does not expire"
    told = f"{describe_standing(row)}; asked {_shorten_time(row, 'asked_at')}, {until}"
    yield from format_labelled("standing", told, width, room=_ROOM)
    if row.get("run_by"):
        runs = str(strict_json.load(Identity, row["run_by"]))
        yield from format_labelled("run by", runs, width, room=_ROOM)
    if holder := get_text(row, "held_by", ""):
        yield from format_labelled("held by", f"{holder}, which takes an answer given here", width, room=_ROOM)


def format_asked(need: Need, prospects: Prospects, width: int) -> Iterator[Text]:
    """Yield what a question shows, with nothing cut."""
    request = need.request
    match need.gate:
        case "approval":
            yield from format_details(request, prospects, width=width, keys=False)
        case "loop":
            yield from format_labelled("held", get_text(request, "question", ""), width, "bold")
            for block in build_held(request, width, details=True):
                yield from block.rows
        case _:
            yield from format_labelled("plan", get_text(request, "question", ""), width, "bold")
            yield from _format_plan(request, width)


def format_answers(need: Need, name: str, width: int) -> Iterator[Text]:
    """Yield how a question is answered from here."""
    choices = list_choices(need)
    plain = [f"`foregate approvals {verb} {name}`" for verb in ("approve", "deny") if _is_answered_by(verb, choices)]
    more = [one for one in choices if one not in ("yes", "no", "grant", "project")]
    ways = [*plain, *([f"`foregate approvals answer {name} {'|'.join(more)}`"] if more else [])]
    yield from format_labelled("answer", ", ".join(ways), width, "dim")


def explain_delivery(delivery: Delivery, question: Question, holder: str) -> str:
    """Return where an answer is and what comes next."""
    if delivery == "taken":
        return f"{holder or 'the process that asked'} resumes the task"
    if delivery == "waiting":
        return f"kept; {holder or 'the next process'} takes it once it comes to the question"
    return f"recorded; `foregate resume {question.session.partition('.')[0]}` resumes the task"


def _is_answered_by(verb: str, choices: list[str]) -> bool:
    wanted = ("yes", "anyway") if verb == "approve" else ("no", "stop")
    return any(one in choices for one in wanted)


def _format_plan(request: Mapping[str, Json], width: int) -> Iterator[Text]:
    """Yield the tasks and the calls that a question about a plan is about."""
    plan = get_object(request, "plan") if "plan" in request else {}
    tasks = get_list(plan, "tasks") if "tasks" in plan else []
    tasks = [*tasks, *([request["task"]] if "task" in request else [])]
    if goal := get_text(plan, "goal", ""):
        yield from format_labelled("goal", goal, width)
    for task in map(as_object, tasks):
        yield from format_labelled(f"{task.get('id', '')}", get_text(task, "description", ""), width)
    for call in map(as_object, get_list(request, "calls") if "calls" in request else ()):
        named = f"{call.get('task', '')}. {call.get('tool', '')} {call.get('target', '')}".strip()
        yield from format_labelled("call", named, width, "bold")
        for name, value in get_object(call, "arguments").items():
            yield from build_argument(name, value if isinstance(value, str) else str(value), width, details=True).rows
        for danger in islice(map(str, get_list(call, "dangers")), 8):
            yield from format_labelled("", danger, width, CARE)


def _shorten_time(row: Mapping[str, Json], key: str) -> str:
    return f"{make_visible(get_text(row, key, ''))[:16].replace('T', ' ')} UTC"
