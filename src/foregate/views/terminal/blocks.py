"""Rows of a sheet that belong together, cut in the middle until it fits a screen, and those about a call's values."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.text import Text

from foregate.schemas.late_pattern import compile_late
from foregate.schemas.sources import explain_candidate, explain_source, list_to_name
from foregate.schemas.strict_json import Json, as_object, get_list, get_text
from foregate.schemas.visible import is_hidden
from foregate.views.terminal.layout import CARE, count_columns, format_labelled, make_visible, pluralise, shorten_text

LEAST = 14
"""Rows a sheet has on however low a screen."""
CUT = "; d shows them, and only then y counts"
"""What a row adds that says how much of a sheet is left out."""
_MOST = 12
"""Rows of values the first view of a sheet shows."""
_LONGEST_PATH = 40
_LONGEST_TEXT = 80
"""Characters that are shown of text out of something that was read."""
# "path: src/a.py".
_PLAIN = compile_late(r"[\w.\[\]-]+: (?:[\w!-~]+|[\w!-9;-~]+(?: [\w!-9;-~]+)*)", re.ASCII)
"""A path and a value without anything that could pass for a wide blank, for our quotes, or among words for a colon."""
# "p\u0430ypal", whose second letter is Cyrillic.
_WORD = compile_late(r"[^\x00-\x20!-,./:-@\[-^`{-~]*[^\x00-\x7f][^\x00-\x20!-,./:-@\[-^`{-~]*")
"""A word with anything but ASCII in it; ASCII signs end it, but for `-` and `_`."""
_TWINS = {
    "CYRILLIC": (
        "\u0430\u0441\u0501\u0435\u04bb\u0456\u0458\u04cf\u043e\u0440\u051b\u0455\u0443\u0475\u0445\u051d"
        "\u0410\u0412\u0421\u0415\u041d\u0406\u0408\u041a\u041c\u041e\u0420\u0405\u0422\u0423\u0425"
    ),
    "GREEK": (
        "\u03b1\u03bd\u03bf\u03b9\u03ba\u03c5\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f"
        "\u03a1\u03a4\u03a5\u03a7"
    ),
}
"""Letters that look like Latin ones: a word made of nothing else passes for a Latin word."""
_TOGETHER = ({"CJK", "HIRAGANA", "KATAKANA"}, {"CJK", "HANGUL"}, {"CJK", "BOPOMOFO"})
"""Scripts that languages write side by side."""
# "\u0251", which passes for an "a".
_PHONETIC = compile_late("[\u0250-\u02af\u1d00-\u1dbf]")
_LAID_OVER = ("OVERLAY", "STROKE", "SOLIDUS", "KEYCAP")


class SheetBlock:
    """Rows of a sheet. What is left of them when they are cut is their head and their tail, so that nothing can be
    hidden behind many lines; `least` are the fewest that are left. With `order` 0 they are never cut, else those of a
    lower order before those of a higher one, and before all those that are cut already. `more` rows were left out
    before they were made, between the first two thirds and the rest."""

    def __init__(self, rows: Sequence[Text], order: int = 0, least: int = 3, *, more: int = 0) -> None:
        self._whole, self.order, self._least, self._more = list(rows), order, least, more
        self.rows, self.is_cut = self._whole, False

    @property
    def fewest(self) -> int:
        """How few rows it can have."""
        return min(len(self.rows), self._least) if self.order else len(self.rows)

    def cut(self, most: int, width: int) -> None:
        """Leave at most `most` rows, or as few as there may be, among them what says how many more there are."""
        most, whole = max(most, self._least), self._whole
        if len(self.rows) <= most and (self.is_cut or not self._more):
            return
        kept = min(len(whole), max(2, most - len(_say_cut(len(whole) + self._more, width))))
        if (left_out := len(whole) + self._more - kept) <= 0:
            return
        tail = max(1, kept // 3)
        self.rows = [*whole[: kept - tail], *_say_cut(left_out, width), *whole[len(whole) - tail :]]
        self.is_cut = True


def _say_cut(left_out: int, width: int) -> list[Text]:
    return list(format_labelled("cut", f"{pluralise(left_out, 'row')} more{CUT}", width, CARE))


def fit_blocks(blocks: Sequence[SheetBlock], room: int, width: int) -> None:
    """Cut blocks until all of them together have at most `room` rows, where that is possible; 0 is no bound."""
    for block in sorted(blocks, key=lambda one: (not one.is_cut, one.order, -len(one.rows))):
        over = sum(len(one.rows) for one in blocks) - room
        if room and over > 0 and block.order:
            block.cut(len(block.rows) - over, width)


def fit_rows(rows: Sequence[Text], height: int, width: int) -> tuple[list[Text], bool]:
    """Return rows as a screen of `height` shows them above a prompt, cut in their middle, and whether they are cut."""
    block = SheetBlock(rows, 1, LEAST)
    fit_blocks([block], max(LEAST, height - 2), width)
    return block.rows, block.is_cut


# "ann@example.org".
_BARE = compile_late(r"[!-~]+", re.ASCII)


def build_values(call: Mapping[str, Json], order: int, width: int, *, details: bool) -> SheetBlock:
    """Return the rows of a call's values, those first that a person has to type to allow it."""
    named = list(list_to_name(call))
    values = named + [value for value in map(as_object, get_list(call, "values")) if value not in named]
    rows: list[Text] = []
    for number, value in enumerate(values):
        rows += format_value(value, width, details=details)
        rows += format_others(value, width) if number < len(named) else ()
    block = SheetBlock(rows, order)
    if not details:
        block.cut(_MOST, width)
    return block


def format_value(value: Mapping[str, Json], width: int, *, details: bool = False) -> Iterator[Text]:
    """Yield what a value is and who said it first, on one row where nothing of the value could pass for the latter."""
    text, said = get_text(value, "text", ""), explain_source(value, details=details)
    if get_text(value, "role", "") == "carried" and not details and len(text) > _LONGEST_TEXT:
        text = f"{text[:_LONGEST_TEXT]}…"
    style = CARE if get_text(value, "source", "") == "outside" else ""
    what = f"{name_path(value)}: {text}"
    both = f"{what}   {said}"
    if _PLAIN.fullmatch(what) and count_columns(make_visible(both)) <= width - 12:
        yield from format_labelled("value", both, width, style)
    else:
        yield from format_labelled("value", what, width, style)
        yield from format_labelled("who said", said, width, style)


def format_others(value: Mapping[str, Json], width: int) -> Iterator[Text]:
    """Yield what a person may mean in the place of a value, each with where it stands and who could write there."""
    for other in map(as_object, get_list(value, "others")):
        text, said = get_text(other, "text"), explain_candidate(other)
        if _BARE.fullmatch(text) and count_columns(make_visible(f"{text}   {said}")) <= width - 12:
            yield from format_labelled("or", f"{text}   {said}", width)
        else:
            yield from format_labelled("or", text, width)
            yield from format_labelled("", said, width)


def name_path(value: Mapping[str, Json]) -> str:
    """Return where in the arguments a value stands; a name that could pass for more than a name as JSON."""
    path = shorten_text(get_text(value, "path", ""), _LONGEST_PATH)
    return path if re.fullmatch(r"[\w.\[\]-]+", path) else json.dumps(path, ensure_ascii=False)


def find_lookalikes(texts: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each word that is not what it looks like, the most telling one, each word once."""
    seen: set[str] = set()
    for text in texts:
        if text.isascii():
            continue
        for word in _WORD.findall(text):
            if word not in seen and (why := explain_word(word)):
                yield f"`{word[:40]}` {why}"
            seen.add(word)


def explain_word(word: str) -> str:
    """Return what is odd about a word, as the end of a sentence; "" for an honest one."""
    plain = unicodedata.normalize("NFC", word)
    if hidden := next(filter(is_hidden, word), ""):
        return f"holds a character that is not seen ({_name(hidden)})"
    if mark := next((char for char in plain if _is_laid_over(char)), ""):
        return f"has strokes laid over its letters ({_name(mark)})"
    folded = unicodedata.normalize("NFKC", word)
    if folded != plain:
        return f"is written in other forms of the letters of `{folded[:40]}`"
    if phonetic := _PHONETIC.search(plain):
        return f"holds a phonetic sign that resembles a letter ({_name(phonetic[0])})"
    scripts = list(dict.fromkeys(filter(None, map(_find_script, plain))))
    if len(scripts) > 1 and not any(together.issuperset(scripts) for together in _TOGETHER):
        few = [char for char in plain if _find_script(char) == min(scripts, key=lambda one: _count(plain, one))]
        return f"mixes {' and '.join(map(str.title, scripts))} letters ({_name(few[0])})"
    letters = [char for char in plain if char.isalpha()]
    twins = next((twins for name, twins in _TWINS.items() if scripts == [name]), "")
    if letters and all(char in twins for char in letters):
        return f"is written in {scripts[0].title()} letters that look like Latin ones"
    if any(unicodedata.bidirectional(char) in ("R", "AL") for char in plain):
        return "is read from right to left, and a terminal may show what is beside it in another order"
    return ""


def _count(word: str, script: str) -> int:
    return sum(_find_script(char) == script for char in word)


def _find_script(character: str) -> str:
    """Return the script of a letter, by the first word of its name; "" for what is no letter."""
    return _name(character).partition(" ")[0] if character.isalpha() else ""


def _is_laid_over(character: str) -> bool:
    return unicodedata.combining(character) != 0 and any(word in _name(character) for word in _LAID_OVER)


def _name(character: str) -> str:
    return unicodedata.name(character, f"U+{ord(character):04X}")
