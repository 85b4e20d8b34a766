"""The dialog in which a person says once, for later calls, what a tool does that nobody declared, and which fields of
what it returned others cannot write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from foregate.gates.support.declaring import ROLES
from foregate.schemas.strict_json import Json, as_object, as_texts, get_list, get_text
from foregate.schemas.tool_spec import Nature
from foregate.views.terminal.blocks import SheetBlock, fit_blocks
from foregate.views.terminal.layout import CARE, format_labelled, format_pieces, pack_parts
from foregate.views.terminal.pages import UNSEEN, show_pages
from foregate.views.terminal.screen import Screen
from foregate.views.terminal.terminal import Terminal

Fields = Mapping[str, Json]
NATURES: Mapping[str, tuple[Nature, str]] = {
    "r": ("reads", "only reads"),
    "c": ("undoable", "changes what can be taken back"),
    "f": ("final", "changes what cannot be taken back"),
    "s": ("sends", "sends, or reaches outside"),
    "h": ("grave", "pays, or has other high impact"),
    "e": ("each", "ask me each time"),
}
"""What is typed, and what it says of a tool."""
_WORDS: Mapping[str, str] = dict(NATURES.values())
BAR = "| "
"""What stands before each line of a server, as the model is offered it."""
_WRONG = (
    "Later calls run by what you say here. If it only reads, none of them asks, except one with an address that "
    "neither you nor a page you named said. Its arguments reach whoever runs it."
)
_OWN_WRONG = (
    "What stands in such a field may later be sent to or paid unasked. Name only what the tool's own system fills in, "
    "such as ids; never what people write."
)


def describe_nature(nature: str) -> str:
    """Return what a person said of a tool, in words."""
    return _WORDS.get(nature, "nothing of what it does" if nature == "unsaid" else "nothing that still holds")


def format_undeclared(about: Fields, width: int, roles: Mapping[str, str], height: int = 0) -> tuple[list[Text], bool]:
    """Return what is known of a tool: its own words as such, the values of the call, and what they make of it. Also
    return whether its words or the values are cut, so that all of it has no more rows than `height`; 0 is no bound."""
    words, values = (
        SheetBlock(list(_list_words(about, width)), 1),
        SheetBlock(list(_list_values(about, width, roles)), 2),
    )
    fields, stakes = SheetBlock(list(_list_fields(about, width)), 2), SheetBlock(list(_list_stakes(about, width)))
    blocks = (SheetBlock(list(_list_head(about, width))), words, values, fields, stakes)
    fit_blocks(blocks, height, width)
    return [row for block in blocks for row in block.rows], any(block.is_cut for block in blocks)


def _list_head(about: Fields, width: int) -> Iterator[Text]:
    tool = get_text(about, "tool")
    since = "nobody has said what it does" if "roles" in about else "nobody has said who can write what it returned"
    if about.get("void"):
        since = "its definition has changed since you said what it does, so that no longer counts"
    yield from format_labelled("tool", f"{tool}: {since}", width, "bold", label_style=f"bold {CARE}")
    if "roles" not in about:
        return
    whose = f"the server `{get_text(about, 'server')}` says" if about.get("server") else "it says"
    yield from format_labelled("words", f"{whose} of it, and may be wrong:", width)


def _list_words(about: Fields, width: int) -> Iterator[Text]:
    for line in _list_own_words(about):
        yield from format_pieces(line, width, "", "  ", "not dim")


def _list_values(about: Fields, width: int, roles: Mapping[str, str]) -> Iterator[Text]:
    for row in map(as_object, get_list(about, "roles")):
        name = get_text(row, "parameter")
        yield from format_labelled(roles[name], f"{name}: {get_text(row, 'value')}", width)
    if unseen := as_texts(get_list(about, "unseen")):
        yield from format_labelled("unseen", f"{', '.join(unseen)}: not given here, and count as values", width)


def _list_fields(about: Fields, width: int) -> Iterator[Text]:
    """Yield the fields of what a tool returned, each with its newest value and whether people write it."""
    fields = [as_object(one) for one in get_list(about, "fields")]
    for number, one in enumerate(fields, start=1):
        name, value = get_text(one, "field"), get_text(one, "value")
        text = f"{number} {name}, free text: {value}" if one.get("prose") else f"{number} {name}: {value}"
        yield from format_labelled("others" if one.get("prose") else "returned", text, width)
    if fields:
        at = get_text(fields[0], "at")[11:16]
        yield from format_labelled("", f"as of {at} UTC; others may have written any of it", width, "dim")


def _list_stakes(about: Fields, width: int) -> Iterator[Text]:
    if "roles" in about:
        proposed = f"{describe_nature(get_text(about, 'nature'))}, by the values alone"
        yield from format_labelled("proposed", proposed, width)
        yield from format_labelled("at stake", _WRONG, width, CARE)
    if about.get("fields"):
        yield from format_labelled("" if "roles" in about else "at stake", _OWN_WRONG, width, CARE)
    yield from pack_parts(list(_list_keys(about)), width, "dim")


def _list_own_words(about: Fields) -> list[str]:
    """Return a tool's words by lines. Those of a server come with a bar before each and a line for the model above
    them; the sheet has a line and bars of its own."""
    lines = get_text(about, "says", "").splitlines()
    barred = [line.removeprefix(BAR) for line in lines[1:] if line.startswith(BAR)]
    return barred if about.get("server") and barred and len(barred) == len(lines) - 1 else lines


def _list_keys(about: Fields) -> Iterator[str]:
    if about.get("fields"):
        yield "o 1 3 others cannot write fields 1 and 3"
    if "roles" not in about:
        yield from ("d details", "Enter says nothing")
        return
    yield "p as proposed"
    for key, (_, words) in NATURES.items():
        yield f"{key} {words}"
    if server := get_text(about, "server"):
        yield f"r all, and so on: all tools of {server} that nobody declared"
    yield f"NAME=ROLE corrects ({', '.join(ROLES)}, value)"
    yield "d details"
    yield "Enter says nothing"


async def ask_declaration(screen: Screen, terminal: Terminal, about: Fields) -> Json:
    """Show what is known of a tool and return what the person says of it, as in a Reply; None for nothing."""
    roles = {get_text(row, "parameter"): get_text(row, "role") for row in map(as_object, get_list(about, "roles"))}
    proposed, own = dict(roles), dict[str, Json]()
    question = "what does it do? " if "roles" in about else "which fields? "
    width, height = screen.console.size
    rows, unseen = format_undeclared(about, width, roles, height - 2)
    screen.rows(rows)
    while typed := (await terminal.read_answer(question) or "").strip():
        name, equals, role = (part.strip() for part in typed.partition("="))
        key, _, rest = typed.lower().partition(" ")
        if equals and name in roles and role in (*ROLES, "value"):
            roles[name] = role
            screen.rows(format_labelled(role, name, width))
            continue
        if typed.lower() == "d":
            unseen = not await show_pages(screen, terminal, format_undeclared(about, width, roles)[0]) and unseen
            continue
        if key == "o" and about.get("fields"):
            if unseen:
                screen.say(UNSEEN.format(key=key), CARE)
            elif fields := read_fields(rest, about):
                own["own"] = fields
                screen.rows(format_labelled("own", ", ".join(map(str, fields)), width))
                if "roles" not in about:
                    return own
            else:
                screen.say("o and the numbers of fields that hold no free text, such as o 1 3", CARE)
            continue
        every = rest.strip() == "all" and bool(about.get("server"))
        if "roles" in about and (key in NATURES or key == "p") and (every or not rest):
            if unseen:
                screen.say(UNSEEN.format(key=key), CARE)
                continue
            said: dict[str, Json] = {"nature": NATURES[key][0] if key != "p" else "proposed", **own}
            if roles != proposed:
                said |= {f"{one}s": [name for name, its in roles.items() if its == one] for one in ROLES}
            return {**said, "all": True} if every else said
        ways = f"p, {', '.join(NATURES)}, d or NAME=ROLE" if "roles" in about else "o with numbers, or d"
        screen.say(f"{ways} (Enter says nothing)", CARE)
    return own or None


def read_fields(numbers: str, about: Fields) -> list[Json]:
    """Return the fields that are named by their numbers; none where one of these is no number of a field to declare."""
    fields = {str(place): as_object(one) for place, one in enumerate(get_list(about, "fields"), start=1)}
    named = [fields.get(number, {"prose": True}) for number in numbers.replace(",", " ").split()]
    return [] if any(one.get("prose") for one in named) else [one["field"] for one in named]
