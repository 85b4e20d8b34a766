"""The approval sheet: what a person must see before saying yes. Pure text, built from the bytes that will run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from rich.text import Text

from foregate.cli.columns import chopped
from foregate.cli.layout import labelled
from foregate.cli.visible import visible
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json

SHOWN = 600
"""Characters of one argument the first view of a sheet shows; `d` shows all."""
KEYS = "y yes, once   n no, and why   d details"
KEYS_WITH_GRANT = "y yes, once   a allow as listed, for this session   n no   d details"

_ORIGIN = {
    "user": "named by you",
    "workspace": "first seen in a file of the workspace",
    "external": "first seen in text from outside",
    "nobody": "named by nobody before",
}


def sheet(request: Mapping[str, Json], *, details: bool = False, width: int = 80) -> list[Text]:
    """Return the lines of the sheet for an approval request, in `width` columns; with `details` nothing is cut.

    Whatever is not Foregate's own stands behind a label or a bar on every line, so that no text can pose as a row.
    """
    lines = list(labelled("approval", str(request.get("question") or "May this run?"), width, "bold"))
    for sentence in request.get("changed") or ():
        lines += labelled("changed", str(sentence), width, "yellow")
    lines += _plan(request.get("plan"), width)
    for number, call in enumerate(request.get("calls") or (), start=1):
        lines += _call(number, call, details, width)
    grants = request.get("grants") or ()
    for number, grant in enumerate(grants):
        lines += labelled("a allows" if number == 0 else "", _grant(grant), width, "cyan")
    lines.append(Text(f"  {KEYS_WITH_GRANT if grants else KEYS}", style="dim"))
    return lines


def cut(request: Mapping[str, Json]) -> bool:
    """Whether the first view of the sheet leaves anything of the arguments out."""
    return any(
        len(value) > SHOWN for call in request.get("calls") or () for _, value in arguments(call.get("arguments", ""))
    )


def arguments(raw: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each argument as it will be used, escapes of JSON resolved; raw text where unreadable.

    A text stands for itself; every other value is JSON.
    """
    try:
        parsed = strict_json.parse(raw)
    except InvalidJson:
        parsed = None
    if not isinstance(parsed, dict):
        yield "arguments", raw
        return
    for name, value in parsed.items():
        yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _call(number: int, call: Mapping[str, Json], details: bool, width: int) -> Iterator[Text]:
    yield from labelled(f"{number}", f"{call.get('tool', '')} {call.get('target', '')}".strip(), width, "bold")
    yield from _folder(call, width)
    way_back = "can be undone" if call.get("reversible") else "CANNOT be undone"
    outside = ", reaches outside the workspace" if call.get("external") else ""
    risk = f", risk {call['risk']} of 1000" if call.get("risk") else ""
    yield from labelled("effect", f"{call.get('effect', 'unknown')}, {way_back}{outside}{risk}", width)
    if origin := _ORIGIN.get(str(call.get("said_first") or "")):
        yield from labelled("target", origin, width)
    for sentence in call.get("why") or ():
        yield from labelled("because", str(sentence), width)
    for name, value in arguments(str(call.get("arguments", ""))):
        yield from _argument(name, value, details, width)
    if details:
        if rules := call.get("rules"):
            yield from labelled("rules", ", ".join(map(str, rules)), width)
        yield from labelled("as sent", str(call.get("arguments", "")), width)
        yield from labelled("call", str(call.get("call", "")), width)


def _argument(name: str, value: str, details: bool, width: int) -> Iterator[Text]:
    part = value if details else value[:SHOWN]
    label = name if name.isidentifier() else json.dumps(name, ensure_ascii=False)
    first, *rest = part.split("\n")
    yield from _barred(f"{label}: {first}", "", width)
    for more in rest:
        yield from _barred(more, "  ", width)
    if len(part) < len(value):
        left = f"{len(value) - len(part)} characters more; d shows them, and only then y counts"
        yield from labelled("cut", left, width, "yellow")


def _barred(content: str, indent: str, width: int) -> Iterator[Text]:
    """Yield a line of an argument behind bars; what does not fit goes on behind further bars, indented."""
    for number, piece in enumerate(chopped(visible(content), max(8, width - 6))):
        text = Text("  | ", style="dim")
        text.append(("  " if number else indent) + piece, style="not dim")
        yield text


def _plan(plan: Mapping[str, Json] | None, width: int) -> Iterator[Text]:
    if not plan:
        return
    yield from labelled("plan", str(plan.get("goal", "")), width)
    for item in plan.get("items") or ():
        times = f", {item['uses']} times" if item.get("uses", 1) != 1 else ""
        further = f", with {item['further']}" if item.get("further") else ""
        yield from labelled("", f"- {item['effect']} {item['kind']} {item['pattern']}{further}{times}", width)
        yield from _folder(item, width)


def _folder(where: Mapping[str, Json], width: int) -> Iterator[Text]:
    """Yield where a command runs, behind a label of its own: within its words it could pass for one of them."""
    if folder := where.get("folder"):
        yield from labelled("in", str(folder), width)


def _grant(grant: Mapping[str, Json]) -> str:
    on = " ".join(str(grant[key]) for key in ("kind", "pattern") if grant.get(key))
    if grant.get("digest"):
        on = "by exactly this call"
    return f"{grant.get('effect', '')} {on}".strip() + f"  (gate {grant.get('gate', '')}, {grant.get('code', '')})"
