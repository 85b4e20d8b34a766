"""What of a message is pasted into it: quoted lines, fenced code, a mail, a letter, a text that is introduced; pure."""

from __future__ import annotations

from collections.abc import Sequence

from foregate.policy.mandate_section import Mandate
from foregate.schemas.late_pattern import compile_late

APOSTROPHES = str.maketrans("\u2018\u2019\u201a\u02bc\uff07", "'''''")
# "```python", "~~~".
_FENCE = compile_late(r"\s*(`{3,}|~{3,})(.*)")
# "From: Eve", "**Subject**: report".
_HEADER = compile_late(r"\s*\**([^\W\d_][\w' -]{0,16}?)\**\s*:")
_RULES = " \t-_=*"


def cut_pasted(text: str, section: Mandate) -> str:
    """Return a message without quoted lines, fenced code and, to its end, a mail or a text pasted into it.

    A letter begins with its greeting where that is not the first line, which greets the reader of the message.
    """
    lines = text.translate(APOSTROPHES).splitlines()
    kept: list[str] = []
    fence = ""
    for number, line in enumerate(lines):
        marks = _FENCE.match(line)
        if fence:
            closes = marks and marks[1].startswith(fence) and not marks[2].strip()
            fence = "" if closes else fence
        elif marks and "`" not in marks[2]:
            fence = marks[1]
            kept.append("")
        elif line.lstrip().startswith(">"):
            kept.append("")
        elif is_mail_start(lines[number : number + 2], section) or (is_greeting(line, section) and any(kept)):
            break
        elif line.rstrip(_RULES).casefold().endswith(tuple(f"{phrase}:" for phrase in section.introductions)):
            kept.append(line)
            break
        else:
            kept.append(line)
    return "\n".join(["", *kept])


def is_mail_start(lines: Sequence[str], section: Mandate) -> bool:
    """Whether a pasted or forwarded mail begins with the first line: by its head or by a line that says so."""
    line = lines[0].strip(_RULES).casefold()
    if line.rstrip(":") in section.mail_starts:
        return True
    if line.endswith(tuple(f"{word}:" for word in section.mail_starts)):
        return True
    header = _HEADER.match(lines[0])
    if not header or header[1].casefold() not in section.mail_headers:
        return False
    following = _HEADER.match(lines[1]) if len(lines) > 1 else None
    return header[1].casefold() in section.mail_senders or bool(
        following and following[1].casefold() in section.mail_headers
    )


def is_greeting(line: str, section: Mandate) -> bool:
    """Whether a line greets somebody as letters do: `Dear customer,`."""
    words = line.strip(_RULES).casefold()
    return words.endswith(",") and any(words.startswith(f"{phrase} ") for phrase in section.salutations)
