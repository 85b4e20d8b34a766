"""A task as data: a folder with `task.yaml` and the `workspace` it begins with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from foregate.policy.source.strict_yaml import parse_yaml
from guarding.services.journal import Row

LOOKS = {
    *("read_file", "list_files", "search_text", "git_status", "git_diff", "git_log", "recall", "open_page"),
    *("search_pages", "read_mails", "get_bill", "list_payments", "list_events", "find_contact", "search_rooms"),
    *("read_shared", "get_traveller", "get_reservation", "search_flights"),
}
"""Tools that change nothing."""
TASKS = Path(__file__).parent.parent / "tasks"


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _call(value: Any) -> Any:
    """Read `{edit_file: {path: …}}` as a call."""
    if isinstance(value, Mapping) and len(value) == 1:
        ((tool, arguments),) = value.items()
        return {"tool": tool, "arguments": arguments}
    return value


class Call(_Closed):
    """A tool call of the obedient model; written `{tool: {argument: value}}`."""

    tool: str
    arguments: dict[str, Any]


class Step(_Closed):
    """One response: words, calls, or both. `meanwhile` is what somebody else writes into files just before it.

    A None there deletes the file; `elsewhere` are commands somebody else runs. `insists` goes on with the script
    although a call of the step before did not run.
    """

    text: str = ""
    calls: tuple[Annotated[Call, BeforeValidator(_call)], ...] = ()
    meanwhile: dict[str, str | None] = {}
    elsewhere: tuple[tuple[str, ...], ...] = ()
    insists: bool = False


class Turn(_Closed):
    """A message of the user, what the model does about it, and what the user answers when asked back.

    Without `answers` left the user leaves a question open.
    """

    say: str
    steps: tuple[Step, ...]
    answers: tuple[str, ...] = ()


class PlannedByScript(_Closed):
    """A plan that is not the script's own: its goal, and (tool, target) steps."""

    goal: str
    steps: tuple[tuple[str, str], ...]


Done = Literal[
    "booked",
    "cancelled",
    "changed",
    "contacts",
    "deleted",
    "events",
    "forwarded",
    "invited",
    "moved",
    "paid",
    "refunded",
    "reserved",
    "shared",
    "written",
]
"""What services do, as their journals call it."""


class Check(_Closed):
    """A truth about the end: of a file, of what a service did, a page opened, a command's output, or the last answer.

    `contains`, `lacks` and `equals` are about the text of `file`, the output of `output`, the last `answer`, the
    addresses `opened`, the texts `sent` to an address, or the lines of `journal`. `exists` and `missing` name a path.
    Without any of the three, `sent` alone says that something was sent there (`*` stands for anybody), and `journal`
    that something of this kind was done.
    """

    file: str | None = None
    output: tuple[str, ...] | None = None
    answer: bool = False
    sent: str | None = None
    opened: bool = False
    journal: Done | None = None
    exists: str | None = None
    missing: str | None = None
    contains: str | None = None
    lacks: str | None = None
    equals: str | None = None


class Task(_Closed):
    """One task. `after` must be true for it to count as done; any truth of `never` is a harm.

    `git` makes the workspace a repository with everything committed, before `dirty` files are written and the `setup`
    commands run (in the workspace; `../origin.git` and `../other.git` are bare repositories). `pages` is what
    `open_page` shows. `agrees` lists what a careful person says yes to, as globs over `tool target` or `tool target
    arguments` and, in a plan, over the target; None is all. `refuses` lists what makes them say no all the same, as
    globs over all of a call that a sheet shows: `tool target arguments why`. `declares` is what they say of tools that
    declare nothing, as in a Reply.

    `blind` are the steps that a planner who sees no call takes from the words; without them a harmless task's planner
    plans what the script does with values of the words, and a harmful one's nothing. It may answer `endless` text, or
    `nothing`.

    `mails`, `bills`, `payments`, `events`, `contacts`, `rooms`, `shared` files, `customers` (whose tools declare
    nothing), `travellers` with their `reservations` and the `flights` of an airline, and what a search `finds` by its
    words are what services hold; a service that is not named has no tools.
    `sort` groups harmful tasks. `known_gap` says in a sentence why nobody claims that its harm is prevented.
    """

    about: str
    kind: Literal["harmless", "harmful"]
    sort: str = "files, commands and git"
    known_gap: str = ""
    turns: tuple[Turn, ...]
    git: bool = False
    dirty: dict[str, str] = {}
    setup: tuple[tuple[str, ...], ...] = ()
    pages: dict[str, str] = {}
    finds: dict[str, tuple[Row, ...]] | None = None
    mails: tuple[Row, ...] | None = None
    bills: tuple[Row, ...] | None = None
    payments: tuple[Row, ...] | None = None
    events: tuple[Row, ...] | None = None
    contacts: tuple[Row, ...] | None = None
    rooms: tuple[Row, ...] | None = None
    shared: dict[str, str] | None = None
    customers: tuple[Row, ...] | None = None
    travellers: tuple[Row, ...] | None = None
    reservations: tuple[Row, ...] = ()
    flights: tuple[Row, ...] = ()
    agrees: tuple[str, ...] | None = None
    refuses: tuple[str, ...] = ()
    declares: dict[str, str] = {}
    plan: PlannedByScript | None = None
    blind: tuple[dict[str, Any], ...] | Literal["endless", "nothing"] | None = None
    after: tuple[Check, ...] = ()
    never: tuple[Check, ...] = ()


def task(folder: Path) -> Task:
    """Return the task of a folder; raise PolicyError or pydantic's ValidationError naming what does not fit."""
    data, _ = parse_yaml((folder / "task.yaml").read_text("utf-8"), f"{folder.name}/task.yaml")
    return Task.model_validate_json(json.dumps(data))


def folders(kind: str = "*") -> list[Path]:
    """Return the folders of all tasks of a kind, by name."""
    return sorted(path.parent for path in TASKS.glob(f"{kind}/*/task.yaml"))
