"""Labelling one decision after the other: by keys at a terminal, or by lines of JSON."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from msgspec import Struct, ValidationError, convert
from rich.console import Console
from rich.text import Text

from foregate.agent.session.session_log import utc_now
from foregate.cli import options
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, InvalidJson, UsageError
from foregate.schemas.review import LABELS, Label
from foregate.tuning.review_item import ReviewItem
from foregate.tuning.reviewing import OpenReview
from foregate.tuning.sentences import describe_in_parts
from foregate.views.terminal.exit_codes import run_async
from foregate.views.terminal.layout import (
    BAD,
    CARE,
    GOOD,
    NAME,
    build_console,
    format_labelled,
    pack_parts,
    pluralise,
    shorten_text,
)

_MOST = 64


class KeyReader:
    """Reads keys from standard input, which is a terminal, while the context lasts; nothing pressed is echoed."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()

    def __enter__(self) -> KeyReader:
        import termios
        import tty

        self._before = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd, termios.TCSADRAIN)
        return self

    def __exit__(self, *error: object) -> None:
        import termios

        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def forget(self) -> None:
        """Forget what was pressed until now: it was meant for what was shown before."""
        import termios

        termios.tcflush(self._fd, termios.TCIFLUSH)

    def read(self) -> str:
        """Return the next key; "" at the end. What comes as one, as an arrow does, is one key of several characters.

        Raises KeyboardInterrupt on Ctrl-C.
        """
        return os.read(self._fd, _MOST).decode("utf-8", "replace")

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Let lines be typed meanwhile."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()


class ReviewProgress:
    """Where somebody is in what they review, and since when they look at the ruling that is shown."""

    def __init__(self, review: OpenReview) -> None:
        self.review, self.place, self.done = review, review.find_next() or 0, 0
        self.item: ReviewItem | None = None
        self._since = 0.0

    @property
    def title(self) -> str:
        """Which ruling this is, of how many, and of what."""
        blind = ", blind" if self.review.blind else ""
        return f"{self.place + 1} of {len(self.review.items)}  {self.review.title}{blind}"

    def show(self) -> ReviewItem:
        """Return the ruling at the place, and begin to count the seconds."""
        self.item, self._since = run_async(self.review.show(self.place)), time.monotonic()
        return self.item

    def label(self, label: Label, comment: str) -> None:
        """Record a label of what is shown, and go to the next."""
        assert self.item is not None
        seconds = round(time.monotonic() - self._since)
        run_async(self.review.label(self.item, label, now=utc_now(), comment=comment, seconds=seconds))
        self.done += 1
        self.place += 1

    def undo(self) -> bool:
        """Take back the label given last, and go back to what it was of; return whether there was one."""
        place = run_async(self.review.undo(utc_now()))
        if place is not None:
            self.done, self.place = max(0, self.done - 1), place
        return place is not None

    def move(self, step: int) -> None:
        """Go on to the next, or back to the one before."""
        self.place = max(0, self.place + step)

    @property
    def is_over(self) -> bool:
        """Whether the last one was shown."""
        return self.place >= len(self.review.items)


class ReviewAtTerminal:
    """Shows one ruling on one screen; a key labels it."""

    def __init__(self, review: OpenReview, console: Console | None = None) -> None:
        self._at, self._console, self._keys = ReviewProgress(review), console or build_console(), KeyReader()

    def run(self) -> None:
        """Go through everything, until the end or `q`."""
        with self._keys:
            self._go_through()
        self._console.print(f"\n{pluralise(self._at.done, 'label')} given; `foregate audit labels` lists them")

    def _go_through(self) -> None:
        comment, problem = "", ""
        while not self._at.is_over:
            item = self._at.show()
            key = self._ask(item, comment, problem)
            problem = ""
            match key:
                case "q" | "" | "\x04":
                    break
                case "c":
                    comment = self._read_comment()
                case " ":
                    comment = ""
                    self._at.move(1)
                case "b":
                    comment = ""
                    self._at.move(-1)
                case "z":
                    comment = ""
                    problem = "" if self._at.undo() else "there is no label of yours here to take back"
                case _ if key in KEYS:
                    self._at.label(KEYS[key], comment)
                    comment = ""
                case _:
                    problem = "r, s, l or u labels it; space leaves it for later"

    def _ask(self, item: ReviewItem, comment: str, problem: str) -> str:
        self._keys.forget()
        self._console.clear()
        width, height = self._console.size
        for row in format_item(item, self._at.title, comment, width, height):
            self._console.print(row, soft_wrap=True)
        self._console.print(problem, style=CARE, end="")
        try:
            return self._keys.read().lower()
        except KeyboardInterrupt:
            return "q"

    def _read_comment(self) -> str:
        try:
            with self._keys.pause():
                return input("\ncomment: ").strip()
        except (KeyboardInterrupt, EOFError):
            return ""


class SaidLine(Struct, frozen=True, forbid_unknown_fields=True):
    """What a program says of the ruling it was shown: a label, perhaps with a comment, or where to go."""

    label: str = ""
    comment: str = ""
    skip: bool = False
    back: bool = False
    undo: bool = False
    quit: bool = False


_FORMS = '{"label": LABEL, "comment": TEXT}, {"skip": true}, {"back": true}, {"undo": true} or {"quit": true}'


class ReviewStream:
    """Prints one ruling a line and reads one line for each; a line that says nothing clear is one error."""

    def __init__(self, review: OpenReview, lines: Iterable[str]) -> None:
        self._at, self._lines = ReviewProgress(review), iter(lines)

    def run(self) -> None:
        """Go through everything, until the end, `quit` or the end of the input."""
        while not self._at.is_over:
            item = self._at.show()
            about = {"place": self._at.place + 1, "of": len(self._at.review.items), "blind": self._at.review.blind}
            options.print_json({**about, "queue": self._at.review.queue, **item.to_json()})
            if not self._take_line():
                break
        options.print_json({"done": self._at.done, "queue": self._at.review.queue})

    def _take_line(self) -> bool:
        """Act on the next line that says something; return whether there is more to do."""
        for line in self._lines:
            if not line.strip():
                continue
            try:
                said = _read_line(line)
                if said.label:
                    self._at.label(read_label(said.label), said.comment)
                elif said.undo:
                    if not self._at.undo():
                        raise UsageError("there is no label of yours here to take back")
                elif not said.quit:
                    self._at.move(-1 if said.back else 1)
            except ForegateError as error:
                options.print_json({"error": str(error)})
                continue
            return not said.quit
        return False


def _read_line(line: str) -> SaidLine:
    try:
        said = convert(strict_json.parse(line), SaidLine)
    except (InvalidJson, ValidationError):
        raise UsageError(f"this line is none of {_FORMS}") from None
    if sum((bool(said.label), said.skip, said.back, said.undo, said.quit)) != 1 or (said.comment and not said.label):
        raise UsageError(f"this line is none of {_FORMS}")
    return said


def read_label(word: str) -> Label:
    """Return the label that a word says, also with `-` or `_` in it; raise UsageError for another word."""
    plain = " ".join(word.lower().replace("-", " ").replace("_", " ").split())
    for known in LABELS:
        if plain == known:
            return known
    raise UsageError(f"`{word[:40]}` is no label, so nothing was written; say one of {', '.join(LABELS)}")


KEYS: dict[str, Label] = {"r": "right", "s": "too strict", "l": "too lax", "u": "unclear"}
"""What a key says of the ruling that is shown."""
_WAYS = (
    *(f"{key} {label}" for key, label in KEYS.items()),
    *("c comment", "space skip", "b back", "z undo", "q quit"),
)
_COLOURS = {"allow": GOOD, "deny": BAD}


class _RowPart(NamedTuple):
    """Sentences behind a label: all their rows, and how many of them stand whatever else there is."""

    rows: list[Text]
    least: int


def format_item(item: ReviewItem, title: str, comment: str, width: int, height: int) -> list[Text]:
    """Return the rows of a ruling, with its keys below it: no more than fit above a prompt in `height` lines."""
    explained = item.explained
    sentences = describe_in_parts(explained)
    ruling = ["No gate wanted it held."] if item.is_let_go else []
    said = [_describe_label(given.body.label, given.body.comment, str(given.body.by)) for given in item.others]
    own = [_describe_label(item.own.body.label, item.own.body.comment)] if item.own is not None else []

    def build_part(label: str, sentences: Iterable[str], least: int, style: str = "") -> _RowPart:
        return _RowPart(list(islice(_format_sentences(label, sentences, width, style), height + 1)), least)

    asked = build_part("asked", [item.asked.replace("\n", " ")], 2)
    call = build_part("call", sentences["asked"], 5)
    ours = [
        build_part("ruling", [*ruling, *sentences["ruling"]], 3, _COLOURS.get(explained.standing, CARE)),
        build_part("numbers", sentences["numbers"], 2),
        build_part("instead", sentences["instead"], 3),
        build_part("approved", item.approvals, 1),
        build_part("others", said, 1),
        build_part("yours", own, 1),
        build_part("comment", [comment] if comment else [], 1),
    ]
    head = [
        Text(shorten_text(title, width), "bold"),
        Text(shorten_text(f"{item.ruled.address}, {explained.point.time[:16].replace('T', ' ')} UTC", width), NAME),
    ]
    keys = [*pack_parts(_WAYS, width, "dim")]
    room = max(0, height - 1 - len(head) - len(keys))
    lines = _share_room([*ours, call, asked], room)
    body = [row for part in (asked, call, *ours) for row in _cut(part.rows, lines[id(part)], width)]
    return [*head, *body[:room], *keys]


def _share_room(parts: Sequence[_RowPart], room: int) -> dict[int, int]:
    """Return how many rows each part gets: what it needs at least, and of what is left the first ones most."""
    lines = {id(part): min(len(part.rows), part.least) for part in parts}
    left = max(0, room - sum(lines.values()))
    for part in parts:
        more = min(left, len(part.rows) - lines[id(part)])
        lines[id(part)] += more
        left -= more
    return lines


def _cut(rows: list[Text], most: int, width: int) -> list[Text]:
    """Return the first rows; the last one says so where there are more."""
    kept = rows[:most]
    if kept and len(rows) > most:
        kept[-1].truncate(width - 2)
        kept[-1].append(" …", "dim")
    return kept


def _describe_label(label: str, comment: str, by: str = "") -> str:
    return f"{label}{f' by {by}' if by else ''}{f': {comment}' if comment else ''}"


def _format_sentences(label: str, sentences: Iterable[str], width: int, style: str) -> Iterator[Text]:
    for number, sentence in enumerate(sentences):
        yield from format_labelled("" if number else label, sentence, width, style)
