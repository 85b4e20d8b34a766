"""Numbers written as words, by the list of the policy; pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from foregate.policy.mandate_section import Mandate
from foregate.schemas.value import trim_text

LONGEST = 8
"""Words of the longest number that is read: `nine hundred ninety nine thousand nine hundred ninety nine`."""
_ENDS = ".,:;!?)]}\"'"
"""What ends a number, so that the next word begins another: `two, three`."""


def read_number_words(texts: Sequence[str], section: Mandate) -> tuple[int, int]:
    """Return how many words from the first one are one number, and the number; no words where it is none.

    `two hundred` is 200, `twenty-five` 25; `two three` are two numbers.
    """
    size, numbers = 0, list[int]()
    for text in texts[:LONGEST]:
        more = [section.numbers.get(part, -1) for part in trim_text(text).casefold().split("-")]
        if _add_up([*numbers, *more]) is None:
            break
        size, numbers = size + 1, [*numbers, *more]
        if text.endswith(tuple(_ENDS)):
            break
    return size, _add_up(numbers) or 0


def _add_up(numbers: Sequence[int]) -> int | None:
    """Return the number that some numbers say one after another, None where they say none, or several."""
    below = list(takewhile(lambda number: number != 1000, numbers))
    if len(below) == len(numbers):
        return _add_up_hundreds(below)
    thousands = _add_up_hundreds(below) if below else 1
    rest = _add_up_hundreds(numbers[len(below) + 1 :]) if numbers[len(below) + 1 :] else 0
    return None if thousands is None or rest is None else thousands * 1000 + rest


def _add_up_hundreds(numbers: Sequence[int]) -> int | None:
    """Return a number below a thousand."""
    match numbers:
        case [100]:
            return 100
        case [count, 100] if 0 < count < 10:
            return 100 * count
        case [*hundreds, 100, one] | [*hundreds, 100, one, _] if len(hundreds) < 2:
            below = _add_up_hundreds(numbers[len(hundreds) + 1 :])
            above = _add_up_hundreds(numbers[: len(hundreds) + 1])
            return above + below if above and below and one < 100 else None
        case [tens, unit] if 20 <= tens < 100 and tens % 10 == 0 and 0 < unit < 10:
            return tens + unit
        case [number] if 0 <= number < 100:
            return number
    return None
