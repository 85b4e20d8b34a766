"""The sheets a person must see before saying yes to calls, built from the bytes that will run, or to MCP tools, and the
difference of two versions of a file in them, line by line. Pure text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import groupby

from msgspec import Struct
from rich.text import Text

from foregate.agent.effects.undo import Preview
from foregate.cli.terminal.layout import BAD, CARE, GOOD, NAME, format_labelled, format_pieces, pack_parts, pluralise
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.protocols import FileChange
from foregate.schemas.strict_json import Json, as_object, get_list, get_object, get_text
from foregate.schemas.tool_call import SurveyedResource

LINES = 40
"""Lines of a change that are shown at first."""
CONTEXT = 3
"""Unchanged lines that are shown before and after a changed one."""
COMPARED = 1_000_000
"""Pairs of lines that are compared at most; with more, all between the first and the last changed line counts."""
Fields = Mapping[str, Json]
"""A request, or a part of one."""
Row = tuple[str, str]
"""A sign and a whole line."""
_REMARK = "\\"
_STYLE = {"-": f"not dim {BAD}", "+": f"not dim {GOOD}", " ": "not dim", "@": "dim", _REMARK: "dim"}


class DiffLine(Struct, frozen=True):
    r"""A line of a difference: `sign` is `-`, `+`, ` ` for unchanged, `@` for where it stands, `\` for a remark."""

    sign: str
    text: str


def diff_lines(before: bytes, after: bytes) -> list[DiffLine]:
    """Return what turns `before` into `after` as a unified diff; nothing where they are the same.

    Lines end at line feeds and nowhere else. A byte that is no UTF-8 becomes a lone surrogate, which `visible` shows.
    """
    lines: list[DiffLine] = []
    old = new = 1
    for group, shown in _group_rows(_align_lines(_split_lines(before), _split_lines(after))):
        removed, added = (sum(sign in (" ", way) for sign, _ in group) for way in "-+")
        if shown:
            lines.append(DiffLine("@", f"@ -{old - (not removed)},{removed} +{new - (not added)},{added} @@"))
        for sign, text in group if shown else ():
            lines.append(DiffLine(sign, text.removesuffix("\n")))
            if not text.endswith("\n"):
                lines.append(DiffLine(_REMARK, "No newline at end of file"))
        old, new = old + removed, new + added
    return lines


def diff_change(change: FileChange) -> list[DiffLine]:
    """Return what a change does to its file, of which there may be none before."""
    return diff_lines(change.before or b"", change.after)


def format_unified(lines: Sequence[DiffLine]) -> str:
    return "".join(f"{line.sign}{' ' if line.sign == _REMARK else ''}{line.text}\n" for line in lines)


def describe_counts(lines: Sequence[DiffLine]) -> str:
    gone, come = (sum(line.sign == sign for line in lines) for sign in "-+")
    parts = [f"{pluralise(n, 'line')} {how}" for n, how in ((gone, "removed"), (come, "added")) if n]
    return ", ".join(parts) or "nothing: the file holds exactly this already"


def format_diff(lines: Sequence[DiffLine], width: int, most: int = 0, hint: str = "") -> Iterator[Text]:
    """Yield the lines behind bars, `most` at most unless that is 0; `hint` says how to see the others. The sign stands
    in a column of its own, and again, with a `>`, before what did not fit: no text can pose as a sign."""
    for line in lines[: most or None]:
        begin = line.sign if line.sign == "@" else f"{line.sign} "
        yield from format_pieces(line.text, width, begin, f"{line.sign}>", _STYLE[line.sign])
    if 0 < most < len(lines):
        yield from format_labelled("cut", f"{len(lines) - most} lines more{hint}", width, CARE)


def format_change(
    lines: Sequence[DiffLine], width: int, *, new: bool = False, most: int = 0, hint: str = ""
) -> Iterator[Text]:
    """Yield how much changes, and its lines as `format_diff` does."""
    yield from format_labelled("changes", f"{'a new file, ' if new else ''}{describe_counts(lines)}", width)
    yield from format_diff(lines, width, most, hint)


def _split_lines(data: bytes) -> list[str]:
    """Return the lines of `data` with their line feeds; the last one may lack it."""
    parts = data.decode("utf-8", "surrogateescape").split("\n")
    return [f"{part}\n" for part in parts[:-1]] + parts[-1:] * bool(parts[-1])


def _align_lines(old: Sequence[str], new: Sequence[str]) -> list[Row]:
    """Return every line of both versions, the common ones once."""
    head = _count_common(old, new)
    tail = _count_common(old[head:][::-1], new[head:][::-1])
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    every, steps = [(" ", line) for line in old[:head]], [("replace", 0, len(a), 0, len(b))]
    if len(a) * len(b) <= COMPARED:
        steps = [*SequenceMatcher(None, a, b).get_opcodes()]
    for kind, a_begin, a_end, b_begin, b_end in steps:
        if kind == "equal":
            every += [(" ", line) for line in a[a_begin:a_end]]
        else:
            every += [("-", line) for line in a[a_begin:a_end]] + [("+", line) for line in b[b_begin:b_end]]
    return every + [(" ", line) for line in old[len(old) - tail :]]


def _count_common(a: Sequence[str], b: Sequence[str]) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _group_rows(every: Sequence[Row]) -> Iterator[tuple[Sequence[Row], bool]]:
    """Yield runs of rows and whether they are shown: those near a change are."""
    changed = (place for place, (sign, _) in enumerate(every) if sign != " ")
    near = {place + by for place in changed for by in range(-CONTEXT, CONTEXT + 1)}
    for shown, run in groupby(range(len(every)), near.__contains__):
        yield [every[place] for place in run], shown


SHOWN = 600
"""Characters of one argument the first view of a sheet shows; `d` shows all."""
FILES = 8
"""Changed files of one call the first view of a sheet shows."""
PATHS = 20
"""Paths a program has changed in its sandbox that the first view of a sheet names."""
_D = "; d shows them, and only then y counts"
KEYS = ("y yes, once", "n no, and why", "d details")
KEYS_WITH_GRANT = ("y yes, once", "a allow as listed, for this session", "n no, and why", "d details")
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


def format_approval(
    request: Fields, prospects: Prospects = NOTHING, *, details: bool = False, width: int = 80
) -> list[Text]:
    """Return the lines of the sheet for an approval request, in `width` columns; with `details` nothing is cut.

    `prospects` say of calls, by id, what they would do to the workspace as it is now; a change they show stands for the
    arguments that make it until details are asked for. Whatever is not Foregate's own stands behind a label or a bar.
    """
    question = str(request.get("question") or "May this run?")
    lines = list(format_labelled("approval", question, width, "bold", label_style=f"bold {CARE}"))
    for sentence in get_list(request, "changed"):
        lines += format_labelled("changed", str(sentence), width, CARE)
    lines += _format_plan(get_object(request, "plan"), width)
    for number, call in enumerate(map(as_object, get_list(request, "calls")), start=1):
        lines += _format_call(number, call, prospects.get(get_text(call, "call", "")), details, width)
    grants = get_list(request, "grants")
    for number, grant in enumerate(map(as_object, grants)):
        named = " ".join(str(grant[key]) for key in ("kind", "pattern") if grant.get(key))
        what = f"{grant.get('effect', '')} {'by exactly this call' if grant.get('digest') else named}".strip()
        what += f"  (gate {grant.get('gate', '')}, {grant.get('code', '')})"
        lines += format_labelled("" if number else "a allows", what, width, NAME)
    lines += pack_parts(KEYS_WITH_GRANT if grants else KEYS, width, "dim")
    return lines


def is_approval_cut(request: Fields, prospects: Prospects = NOTHING) -> bool:
    """Whether the first view leaves anything out of the arguments, or of the changes that stand for them."""
    calls = map(as_object, get_list(request, "calls"))
    return any(_is_call_cut(call, prospects.get(get_text(call, "call", ""))) for call in calls)


def _is_call_cut(call: Fields, prospect: Preview | None) -> bool:
    changes, shown = prospect.changes if prospect is not None else (), _list_shown_arguments(prospect)
    named = list_arguments(get_text(call, "arguments", ""))
    if prospect is not None and len(prospect.paths) > PATHS:
        return True
    if len(changes) > FILES or any(len(value) > SHOWN and name not in shown for name, value in named):
        return True
    return sum(len(diff_change(change)) for change in changes) > LINES


def list_arguments(raw: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each argument as it will be used, a text as itself and all else as JSON; raw text where
    it cannot be read."""
    parsed = None
    with suppress(InvalidJson):
        parsed = strict_json.parse(raw)
    for name, value in parsed.items() if isinstance(parsed, dict) else [("arguments", raw)]:
        yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _format_call(number: int, call: Fields, prospect: Preview | None, details: bool, width: int) -> Iterator[Text]:
    yield from format_labelled(f"{number}", f"{call.get('tool', '')} {call.get('target', '')}".strip(), width, "bold")
    yield from _format_folder(call, width)
    effect = f"{call.get('effect', 'unknown')}, {_describe_undo(call, prospect)}"
    effect += ", reaches outside the workspace" if call.get("external") else ""
    effect += f", risk {call['risk']} of 1000" if call.get("risk") else ""
    yield from format_labelled("effect", effect, width)
    if prospect is not None and prospect.paths:
        yield from _format_paths(prospect, details, width)
    else:
        yield from _format_target(call, prospect, width)
    if there := get_list(call, "there"):
        yield from format_labelled("there", f"already: {', '.join(map(str, there))}", width)
    if "plan_items" in call:
        yield from format_labelled("covered", _describe_coverage(call), width)
    for sentence in get_list(call, "why"):
        yield from format_labelled("because", str(sentence), width)
    stands_for = () if details else _list_shown_arguments(prospect)
    for name, value in list_arguments(get_text(call, "arguments", "")):
        if name not in stands_for:
            yield from format_argument(name, value, details, width)
    if prospect is not None:
        if prospect.problem:
            yield from format_labelled("fails", f"as things are: {prospect.problem}", width, CARE)
        for path, names in prospect.unkept.items():
            yield from format_labelled("loses", f"{path}: its {', '.join(names)}", width, CARE)
        yield from _format_changes(prospect.changes, details, width, named=bool(prospect.paths))
    if details:
        if rules := get_list(call, "rules"):
            yield from format_labelled("rules", ", ".join(map(str, rules)), width)
        yield from format_labelled("as sent", get_text(call, "arguments", ""), width)
        yield from format_labelled("call", get_text(call, "call", ""), width)


def _describe_undo(call: Fields, prospect: Preview | None) -> str:
    """Return whether a call can be undone, and, where that has been looked at, whether a before-image is kept."""
    can, kept, lost = _UNDO[bool(call.get("reversible"))]
    if prospect is None:
        return can
    return f"{can}{kept if prospect.kept else lost}"


def _format_target(call: Fields, prospect: Preview | None, width: int) -> Iterator[Text]:
    """Yield the target as resolved, what is there now and who named it first, and what is kept of several resources."""
    target, origin = get_text(call, "target", ""), _ORIGIN[get_text(call, "said_first", "")]
    ways = () if prospect is None else (("kept", prospect.kept), ("lost", prospect.lost))
    touched = {resource.id: resource for _, resources in ways for resource in resources}
    there = f" ({_describe_state(touched[target])})" if target in touched else ""
    yield from format_labelled("target", f"{target}{there}, {origin}" if target else origin, width)
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


def _format_paths(prospect: Preview, details: bool, width: int) -> Iterator[Text]:
    """Yield what a program has done to each path in its sandbox, and what of that has no way back."""
    shown = prospect.paths if details else prospect.paths[:PATHS]
    for number, path in enumerate(shown):
        yield from format_labelled("" if number else "did", path, width)
    if len(shown) < len(prospect.paths):
        yield from format_labelled(
            "cut", f"{pluralise(len(prospect.paths) - len(shown), 'path')} more{_D}", width, CARE
        )
    for number, resource in enumerate(prospect.lost):
        yield from format_labelled(
            "" if number else "lost", f"{resource.id} ({_describe_state(resource)})", width, CARE
        )


def _format_changes(changes: Sequence[FileChange], details: bool, width: int, *, named: bool = False) -> Iterator[Text]:
    """Yield what a call would make of its files, one after the other; all of them together take so many lines."""
    room = LINES
    for change in changes if details else changes[:FILES]:
        if named or len(changes) > 1:
            yield from format_labelled("file", change.path, width)
        lines = diff_change(change)
        most = 0 if details else max(1, room)
        yield from format_change(lines, width, new=change.before is None, most=most, hint=_D)
        room -= len(lines)
    if not details and len(changes) > FILES:
        yield from format_labelled("cut", f"{len(changes) - FILES} files more{_D}", width, CARE)


def format_argument(name: str, value: str, details: bool, width: int) -> Iterator[Text]:
    part = value if details else value[:SHOWN]
    label = name if name.isidentifier() else json.dumps(name, ensure_ascii=False)
    for number, line in enumerate(f"{label}: {part}".split("\n")):
        yield from format_pieces(line, width, "  " if number else "", "  ", "not dim")
    if len(part) < len(value):
        yield from format_labelled("cut", f"{len(value) - len(part)} characters more{_D}", width, CARE)


def _format_plan(plan: Fields, width: int) -> Iterator[Text]:
    if plan:
        yield from format_labelled("plan", get_text(plan, "goal", ""), width)
    for number, item in enumerate(map(as_object, get_list(plan, "items")), start=1):
        times = f", {item['uses']} times" if item.get("uses", 1) != 1 else ""
        further = f", with {item['further']}" if item.get("further") else ""
        what = f"{number} {item['effect']} {item['kind']} {item['pattern']}{further}{times}"
        yield from format_labelled("", what, width)
        yield from _format_folder(item, width)


def _format_folder(where: Fields, width: int) -> Iterator[Text]:
    """Yield where a command runs, behind a label of its own: within its words it could pass for one of them."""
    if folder := where.get("folder"):
        yield from format_labelled("in", str(folder), width)


TOOL_KEYS = ("y offer them, as they are now", "n not in this session", "d details")
_STATE_STYLE = {"changed": CARE, "new": "bold", "unusable": "dim"}


def format_tools(request: Fields, *, details: bool = False, keys: bool = True, width: int = 80) -> list[Text]:
    """Return the lines of the sheet in `width` columns; with `details` everything the server says of its tools."""
    lines = list(format_labelled("tools", get_text(request, "question"), width, "bold", label_style=f"bold {CARE}"))
    lines += format_labelled("runs", get_text(request, "launch"), width)
    for tool in get_list(request, "tools"):
        lines += format_tool(as_object(tool), width, details=details)
    if keys:
        lines += pack_parts(TOOL_KEYS, width, "dim")
    return lines


def is_tools_cut(request: Fields) -> bool:
    """Whether the first view leaves out a part of how a pinned tool has changed."""
    tools = map(as_object, get_list(request, "tools"))
    return any(tool["state"] == "changed" and len(diff_tool(tool)) > LINES for tool in tools)


def format_tool(tool: Fields, width: int, *, details: bool = False) -> Iterator[Text]:
    """Yield the rows of one tool; of one that has changed how it differs from what was pinned."""
    state, problem = get_text(tool, "state"), get_text(tool, "problem")
    name, style = get_text(tool, "tool"), _STATE_STYLE.get(state, "")
    yield from format_labelled(state, name, width, style, label_style=style or "dim")
    if problem:
        yield from format_labelled("", problem, width)
    elif state != "pinned":
        yield from format_labelled("claims", get_text(tool, "claims"), width)
        if state == "new" and not details:
            yield from format_labelled("says", get_text(tool, "first_line") or "nothing", width)
        else:
            yield from format_diff(diff_tool(tool), width, 0 if details else LINES, _D)


def diff_tool(tool: Fields) -> Sequence[DiffLine]:
    """Return what a tool's server says of it now, against what was pinned."""
    before, after = (get_text(tool, side).encode("utf-8", "replace") for side in ("before", "after"))
    return diff_lines(before, after)
