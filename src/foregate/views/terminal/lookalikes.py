"""Letters that pass for others: what of a path, a host or a command is not what it looks like, named for a reader.

Data of a library was tried for this (confusable_homoglyphs). It takes a quarter of a second to load, does not know
full-width letters or Latin look-alikes, and takes a decomposed accent for a danger.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from foregate.schemas.late_pattern import compile_late
from foregate.schemas.visible import is_hidden

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
