"""The sheet a person must see before saying yes to calls, built from the bytes that will run. Pure text.

What is decided comes first: the call, what it does, what is at stake and why it asks. Everything that could be made
long by somebody else is cut in its middle, so that the sheet fits the screen and its beginning never scrolls away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from rich.text import Text

from foregate.agent.loop.undo import Preview
from foregate.gates.support.permitting import NARROW, WIDER, list_permits
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json, as_object, as_texts, get_list, get_object, get_text
from foregate.schemas.tool_call import SurveyedResource
from foregate.views.terminal.answer_keys import list_keys
from foregate.views.terminal.blocks import CUT, LEAST, SheetBlock, build_values, find_lookalikes, fit_blocks
from foregate.views.terminal.diff import LINES, describe_change, diff_change, format_diff
from foregate.views.terminal.layout import (
    CARE,
    NAME,
    format_labelled,
    format_pieces,
    pack_parts,
    pluralise,
    shorten_text,
)

Fields = Mapping[str, Json]
"""A request, or a part of one."""
SHOWN = 600
"""Characters of one argument the first view of a sheet shows in full."""
ROWS = 12
"""Rows of one argument the first view of a sheet shows."""
FILES = 8
"""Changed files of one call the first view of a sheet shows."""
PATHS = 20
"""Rows of paths a program has changed in its sandbox in the first view of a sheet."""
NOTES = 3
"""Words of one call that are named as not what they look like."""
_LEAST_OF_FILE = 5
"""Rows of one changed file, its name and how much of it changes among them."""
_SENTENCE = 3
"""Rows of one sentence, such as why a call asks."""
_FACTS, _PLAN, _CONTENT = 1, 2, 3
"""What is cut first where a sheet is higher than its screen."""
Prospects = Mapping[str, Preview]
NOTHING: Prospects = {}
_UNDO = {
    True: ("can be undone", " (a before-image is kept)", " (says its tool; no before-image is kept)"),
    False: ("CANNOT be undone", " as a whole", " (no before-image is kept)"),
}
_ORIGIN = {
    "": "nobody can say who named it first",
    "user": "named by you",
    "workspace": "first seen in a file of the workspace",
    "external": "first seen in text from outside",
    "nobody": "named by nobody before",
}


VOID = "the tool's definition has changed since you said what it does, so that no longer counts"


class ApprovalSheet(NamedTuple):
    """The rows of a sheet, and whether anything is left out of them, so that a yes must wait for the details."""

    rows: list[Text]
    is_cut: bool


def build_sheet(
    request: Fields, prospects: Prospects = NOTHING, *, width: int = 80, height: int = 0, only: int = 0
) -> ApprovalSheet:
    """Return the sheet for an approval request, in `width` columns and, unless that is 0, at most `height` rows.

    With `only`, it is about the call of that number alone.
    `prospects` say of calls, by id, what they would do to the workspace now; a change they show stands for the
    arguments that make it until details are asked for. Whatever is not Foregate's own stands behind a label or a bar.
    """
    each = [list(_build_call(number, call, prospects, width)) for number, call in number_calls(request, only)]
    head, tail = _build_head(request, width), _build_tail(request, width, only=only)
    room = max(LEAST, height) if height else 0
    shown = _count_fitting(each, room - sum(block.fewest for block in (*head, *tail))) if room else len(each)
    every = [*head, *(block for blocks in each[:shown] for block in blocks)]
    if left_out := len(each) - shown:
        said = f"{pluralise(left_out, 'call')} more{CUT}"
        every.append(SheetBlock(list(format_labelled("cut", said, width, CARE))))
    every += tail
    fit_blocks(every, room, width)
    is_cut = bool(left_out) or any(block.is_cut for block in every)
    rows, keys = [row for block in every[:-1] for row in block.rows], every[-1].rows
    if room and len(rows) + len(keys) > room:  # so many things to say of one call that none of them can be cut enough
        (whole := SheetBlock(rows, 1, LEAST - len(keys))).cut(room - len(keys), width)
        rows, is_cut = whole.rows, True
    return ApprovalSheet([*rows, *keys], is_cut)


def number_calls(request: Fields, only: int = 0) -> list[tuple[int, Fields]]:
    """Return the calls of a request with their numbers, from 1; with `only` the one of that number."""
    calls = [(number, as_object(call)) for number, call in enumerate(get_list(request, "calls"), start=1)]
    return [calls[only - 1]] if only else calls


def _count_fitting(calls: Sequence[Sequence[SheetBlock]], room: int) -> int:
    """Return how many calls fit, one at least; where not all do, a row is needed that says so."""
    taken = 0
    for number, blocks in enumerate(calls):
        taken += sum(block.fewest for block in blocks)
        if number and taken + (number + 1 < len(calls)) > room:
            return number
    return len(calls)


def format_details(
    request: Fields, prospects: Prospects = NOTHING, *, width: int = 80, only: int = 0, keys: bool = True
) -> list[Text]:
    """Return the rows of the same sheet with nothing cut, and with what details beside it there are.

    Without `keys` it is for somebody who answers by other means.
    """
    blocks = _build_head(request, width, details=True)
    for number, call in number_calls(request, only):
        blocks += _build_call(number, call, prospects, width, details=True)
    blocks += _build_tail(request, width, only=only, details=True, keys=keys)
    return [row for block in blocks for row in block.rows]


def _build_head(request: Fields, width: int, *, details: bool = False) -> list[SheetBlock]:
    question = str(request.get("question") or "May this run?")
    head = [SheetBlock(list(format_labelled("approval", question, width, "bold", label_style=f"bold {CARE}")))]
    return head + [
        _build_sentence("changed", str(sentence), width, details, CARE) for sentence in get_list(request, "changed")
    ]


def _build_tail(
    request: Fields, width: int, *, only: int, details: bool = False, keys: bool = True
) -> list[SheetBlock]:
    """Return what a yes gives beyond the calls, and the keys."""
    plan, grants = get_object(request, "plan"), () if only else get_list(request, "grants")
    calls = number_calls(request, only)
    rows = [*_format_grants(grants, width), *_format_permissions(request, calls, width)]
    blocks = [SheetBlock(list(_format_plan(plan, width, details)), _PLAN), SheetBlock(rows, _PLAN)]
    named = list_keys(calls, bool(grants), list_permits([call for _, call in calls])) if keys else ()
    return [*blocks, SheetBlock(list(pack_parts(named, width, "dim")))]


def _build_sentence(label: str, sentence: str, width: int, details: bool, style: str = "") -> SheetBlock:
    """Return a sentence as a block of a few rows, all of them with `details`."""
    block = SheetBlock(list(format_labelled(label, sentence, width, style)))
    if not details:
        block.cut(_SENTENCE, width)
    return block


def _build_call(
    number: int, call: Fields, prospects: Prospects, width: int, *, details: bool = False
) -> Iterator[SheetBlock]:
    prospect = prospects.get(get_text(call, "call", ""))
    name = f"{call.get('tool', '')} {call.get('target', '')}".strip()
    yield SheetBlock(list(format_labelled(f"{number}", shorten_text(name, width - 12), width, "bold")))
    yield SheetBlock(list(_format_folder(call, width)), _FACTS, 1)
    stands_for = () if details else _list_shown_arguments(prospect)
    for argument, value in list_arguments(get_text(call, "arguments", "")):
        if argument not in stands_for:
            yield build_argument(argument, value, width, details=details)
    yield from _build_judgement(call, prospect, width, details)
    if prospect is not None and prospect.paths:
        did = SheetBlock(list(_format_paths(prospect, width)), _CONTENT)
        if not details:
            did.cut(PATHS, width)
        yield did
    else:
        yield SheetBlock(list(_format_target(call, prospect, width)), _FACTS, 1)
    if there := get_list(call, "there"):
        yield SheetBlock(list(format_labelled("there", f"already: {', '.join(map(str, there))}", width)), _FACTS, 1)
    if "plan_items" in call:
        yield SheetBlock(list(format_labelled("covered", _describe_coverage(call), width)), _FACTS, 1)
    if prospect is not None:
        yield from _build_changes(prospect, details, width)
    if details:
        yield SheetBlock(list(_format_record(call, width)))


def build_held(request: Fields, width: int, *, details: bool = False) -> list[SheetBlock]:
    """Return what the question about a call that was held again shows of it: its target and its arguments."""
    rows: list[SheetBlock] = []
    for call in map(as_object, get_list(request, "calls")):
        name = f"{call.get('tool', '')} {call.get('target', '')}".strip()
        rows.append(SheetBlock(list(format_labelled("call", shorten_text(name, width - 12), width, "bold"))))
        arguments = list_arguments(get_text(call, "arguments", ""))
        rows += [build_argument(argument, value, width, details=details) for argument, value in arguments]
    return rows


def _build_judgement(call: Fields, prospect: Preview | None, width: int, details: bool) -> Iterator[SheetBlock]:
    """Yield what a person decides by: who said its values, what the call does, what is at stake, why it asks, what
    about it is odd."""
    yield build_values(call, _CONTENT, width, details=details)
    effect = f"{call.get('effect', 'unknown')}, {_describe_undo(call, prospect)}"
    effect += ", reaches outside the workspace" if call.get("external") else ""
    yield SheetBlock(list(format_labelled("effect", effect, width)))
    for number, stake in enumerate(get_list(call, "at_stake")):
        style = "" if str(stake).startswith("nothing: ") else CARE
        yield _build_sentence("" if number else "at stake", str(stake), width, details, style)
    for sentence in get_list(call, "why"):
        yield _build_sentence("because", str(sentence), width, details)
    for number, sentence in enumerate(get_list(call, "critic")):
        yield _build_sentence("" if number else "critic", f"“{sentence}”", width, details, "dim")
    if get_object(call, "undeclared").get("void"):
        yield _build_sentence("changed", VOID, width, details, CARE)
    odd = list(find_lookalikes(_list_names(call)))
    if not details and len(odd) > NOTES:
        odd[NOTES - 1 :] = [f"{len(odd) - NOTES + 1} further words are not what they look like"]
    for number, sentence in enumerate(odd):
        yield _build_sentence("" if number else "note", sentence, width, details, "dim")
    if prospect is not None and prospect.problem:
        yield _build_sentence("fails", f"as things are: {prospect.problem}", width, details, CARE)
    for path, names in prospect.unkept.items() if prospect is not None else ():
        yield _build_sentence("loses", f"{path}: its {', '.join(names)}", width, details, CARE)


def _list_names(call: Fields) -> Iterator[str]:
    """Yield the paths, hosts and commands of a call."""
    yield get_text(call, "target", "")
    yield get_text(call, "folder", "")
    yield from as_texts(get_list(call, "there"))
    for _, value in list_arguments(get_text(call, "arguments", "")):
        yield value[:SHOWN]


def list_arguments(raw: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each argument as it will be used, a text as itself and all else as JSON; raw text where
    it cannot be read."""
    parsed = None
    with suppress(InvalidJson):
        parsed = strict_json.parse(raw)
    for name, value in parsed.items() if isinstance(parsed, dict) else [("arguments", raw)]:
        yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _describe_undo(call: Fields, prospect: Preview | None) -> str:
    """Return whether a call can be undone, and, where that has been looked at, whether a before-image is kept."""
    can, kept, lost = _UNDO[bool(call.get("reversible"))]
    if prospect is None or (call.get("effect") == "execute" and not prospect.lost):
        return can  # there is no image of what a program may do
    return f"{can}{kept if prospect.kept else lost}"


def _format_target(call: Fields, prospect: Preview | None, width: int) -> Iterator[Text]:
    """Yield the target as resolved, what is there now and who named it first, and what is kept of several resources."""
    target, origin = get_text(call, "target", ""), _ORIGIN[get_text(call, "said_first", "")]
    ways = () if prospect is None else (("kept", prospect.kept), ("lost", prospect.lost))
    touched = {resource.id: resource for _, resources in ways for resource in resources}
    there = f" ({_describe_state(touched[target])})" if target in touched else ""
    # a command stands above in full: its words once more would only take room
    is_told = call.get("effect") == "execute" or not target
    named = "none is known" if not target and not get_text(call, "said_first", "") else origin
    yield from format_labelled("target", named if is_told else f"{target}{there}, {origin}", width)
    for label, resources in ways if len(touched) > 1 else ():
        for number, resource in enumerate(resources):
            what, style = f"{resource.id} ({_describe_state(resource)})", CARE if label == "lost" else ""
            yield from format_labelled("" if number else label, what, width, style)


def _describe_state(resource: SurveyedResource) -> str:
    if not resource.exists:
        return "nothing there yet"
    many = f", {resource.entries} in it" if resource.entries else ""
    return f"{resource.kind.value}{many}"


def _describe_coverage(call: Fields) -> str:
    if call["plan_items"] is None:
        return "by no plan; none is in force"
    if not (items := get_list(call, "plan_items")):
        return "by no item of the plan"
    return f"by item{'s' if len(items) > 1 else ''} {', '.join(map(str, items))} of the plan"


def _list_shown_arguments(prospect: Preview | None) -> tuple[str, ...]:
    """Return the names of the arguments the changes of a prospect stand for."""
    return prospect.changes[0].shown_by if prospect is not None and prospect.changes else ()


def _format_paths(prospect: Preview, width: int) -> Iterator[Text]:
    """Yield what a program has done to each path in its sandbox, and what of that has no way back."""
    for number, path in enumerate(prospect.paths):
        yield from format_labelled("" if number else "did", path, width)
    for number, resource in enumerate(prospect.lost):
        what = f"{resource.id} ({_describe_state(resource)})"
        yield from format_labelled("" if number else "lost", what, width, CARE)


def _build_changes(prospect: Preview, details: bool, width: int) -> Iterator[SheetBlock]:
    """Yield what a call would make of each of its files; all of them together take so many rows, but for the least."""
    room, many = LINES, prospect.paths or len(prospect.changes) > 1
    for change in prospect.changes if details else prospect.changes[:FILES]:
        lines = shown = diff_change(change)
        if not details and len(lines) > 3 * LINES:
            shown = [*lines[: 2 * LINES], *lines[-LINES:]]
        rows = list(format_labelled("file", change.path, width)) if many else []
        rows += format_labelled("changes", describe_change(lines, new=change.before is None), width)
        rows += format_diff(shown, width)
        block = SheetBlock(rows, _CONTENT, _LEAST_OF_FILE, more=len(lines) - len(shown))
        if not details:
            block.cut(room + len(rows) - len(shown), width)
        room = max(0, room - len(shown))
        yield block
    if not details and (left_out := len(prospect.changes) - FILES) > 0:
        rest = SheetBlock(list(format_labelled("cut", f"{pluralise(left_out, 'file')} more{CUT}", width, CARE)))
        rest.is_cut = True
        yield rest


def build_argument(name: str, value: str, width: int, *, details: bool) -> SheetBlock:
    """Return an argument behind bars, a long one by its head and tail unless there are `details`."""
    label, rows = name if name.isidentifier() else json.dumps(name, ensure_ascii=False), list[Text]()
    for number, line in enumerate(f"{label}: {value}".split("\n")):
        rows += format_pieces(line, width, "  " if number else "", "  ", "not dim")
    block = SheetBlock(rows, _CONTENT)
    if not details and is_long(value):
        block.cut(min(ROWS, len(rows) - 1), width)
    return block


def is_long(value: str) -> bool:
    """Whether the first view of a sheet leaves out the middle of an argument."""
    return len(value) > SHOWN or value.count("\n") >= ROWS


def _format_grants(grants: Sequence[Json], width: int) -> Iterator[Text]:
    for number, grant in enumerate(map(as_object, grants)):
        named = " ".join(str(grant[key]) for key in ("kind", "pattern") if grant.get(key))
        what = f"{grant.get('effect', '')} {'by exactly this call' if grant.get('digest') else named}".strip()
        what += ", while the script it runs stays unchanged" if grant.get("scripts") else ""
        what += f"  (gate {grant.get('gate', '')}, {grant.get('code', '')})"
        yield from format_labelled("" if number else "s allows", what, width, NAME)


def _format_permissions(request: Fields, calls: Sequence[tuple[int, Fields]], width: int) -> Iterator[Text]:
    """Yield what each key would permit from now on; of several calls each with its number."""
    words = {get_text(one, "id", ""): get_text(one, "words", "") for one in get_list(request, "permissions")}
    for choice, key in ((NARROW, "p"), (WIDER, "w")):
        offered = [(number, one) for number, call in calls if (one := get_object(call, "permits").get(choice)) in words]
        for place, (number, one) in enumerate(offered):
            what = f"{f'{number} ' * (len(calls) > 1)}{words[str(one)]}"
            yield from format_labelled("" if place else f"{key} permits", what, width, NAME)


def _format_plan(plan: Fields, width: int, details: bool) -> Iterator[Text]:
    if plan:
        yield from format_labelled("plan", get_text(plan, "goal", ""), width)
    for number, item in enumerate(map(as_object, get_list(plan, "items")), start=1):
        what = f"{number} {_describe_item(item)}"
        yield from format_labelled("", what if details else shorten_text(what, 2 * (width - 13)), width)
        yield from _format_folder(item, width)


def _describe_item(item: Fields) -> str:
    """Return what an item of a plan covers; one that is known by its digest alone by the words of its call."""
    times = f", {item['uses']} times" if item.get("uses", 1) != 1 else ""
    further = f", with {item['further']}" if item.get("further") else ""
    named = f"{item['kind']} {item['pattern']}"
    if get_text(item, "pattern", "").startswith("sha256:"):
        named = f"exactly this call: {item['words']}" if item.get("words") else "exactly one earlier call"
    return f"{item['effect']} {named}{further}{times}"


def _format_folder(where: Fields, width: int) -> Iterator[Text]:
    """Yield where a command runs, behind a label of its own: within its words it could pass for one of them."""
    if folder := where.get("folder"):
        yield from format_labelled("in", str(folder), width)


def _format_record(call: Fields, width: int) -> Iterator[Text]:
    """Yield how a call stands in the log: the rules that ask, its arguments as they were sent, its risk and its id."""
    if rules := get_list(call, "rules"):
        yield from format_labelled("rules", ", ".join(map(str, rules)), width)
    yield from format_labelled("as sent", get_text(call, "arguments", ""), width)
    if risk := call.get("risk"):
        yield from format_labelled("risk", f"{risk} of 1000", width)
    yield from format_labelled("call", get_text(call, "call", ""), width)


def split_pages(rows: Sequence[Text], height: int) -> Iterator[Sequence[Text]]:
    """Yield rows as many at a time as a screen of this height shows above a prompt."""
    rest, most = iter(rows), max(LEAST, height - 2)
    while page := list(islice(rest, most)):
        yield page
