"""A number of the policy that stands for a whole range: comparing it narrows the range to where all comes out alike.

So one judgement tells for which values of a key it holds, and a sweep that begins anew behind each range is exact for
every whole number, though it judges a turn only as often as anything turns.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

Compare = Callable[[int, int], bool]
Calculate = Callable[[int], int]


class Range:
    """The values for which everything has come out as for `at`: from `low` to `high`.

    `is_weighed` says that the number was calculated with together with one of another range.
    """

    def __init__(self, at: int, low: int, high: int) -> None:
        self.at, self.low, self.high = at, low, high
        self.is_weighed = False

    def pin(self) -> None:
        """Leave only the value itself: what was done with it cannot be followed."""
        self.low = self.high = self.at

    def narrow(self, calculate: Calculate, compare: Compare) -> bool:
        """Return how what is calculated compares with 0, and leave only the values next to it that do so as well.

        `calculate` never rises, or never falls, so its sign changes twice at most: from below 0 to 0, and from there to
        above. Both places are found by halving.
        """
        sign = _find_sign(calculate(self.at))
        found = compare(sign, 0)
        low, high = self._find_end(calculate, sign, self.low), self._find_end(calculate, sign, self.high)
        while low > self.low and compare(_find_sign(calculate(low - 1)), 0) == found:
            low = self._find_end(calculate, _find_sign(calculate(low - 1)), self.low, low - 1)
        while high < self.high and compare(_find_sign(calculate(high + 1)), 0) == found:
            high = self._find_end(calculate, _find_sign(calculate(high + 1)), self.high, high + 1)
        self.low, self.high = low, high
        return found

    def _find_end(self, calculate: Calculate, sign: int, end: int, begin: int | None = None) -> int:
        """Return the value furthest towards `end` from `begin` up to which the sign stays the same."""
        still = self.at if begin is None else begin
        if _find_sign(calculate(end)) == sign:
            return end
        turned = end
        while abs(turned - still) > 1:
            middle = (still + turned) // 2
            if _find_sign(calculate(middle)) == sign:
                still = middle
            else:
                turned = middle
        return still


def _find_sign(value: int) -> int:
    return (value > 0) - (value < 0)


class _NumberLine(Struct, frozen=True):
    """`rise` times what lies beneath it, a value or a quotient of one, plus `offset`; never turns back."""

    rise: int
    offset: int
    beneath: _NumberLine | None = None
    divisor: int = 1

    def __call__(self, value: int) -> int:
        inner = value if self.beneath is None else self.beneath(value) // self.divisor
        return self.rise * inner + self.offset

    def has_same_beneath(self, other: _NumberLine) -> bool:
        """Whether the two differ in nothing but their own rise and offset."""
        return (self.beneath, self.divisor) == (other.beneath, other.divisor)


class SweptNumber(int):
    """A number calculated from the value of a key, for as long as that stays within its range."""

    range: Range
    line: _NumberLine

    def __new__(cls, within: Range, line: _NumberLine | None = None) -> SweptNumber:
        line = line or _NumberLine(1, 0)
        made = super().__new__(cls, line(within.at))
        made.range, made.line = within, line
        return made

    def _compare(self, other: Any, compare: Compare) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        difference = self - other
        if isinstance(difference, SweptNumber):
            return self.range.narrow(difference.line, compare)
        return compare(difference, 0)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, operator.ge)

    def __eq__(self, other: object) -> Any:
        return self._compare(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._compare(other, operator.ne)

    def __hash__(self) -> int:
        return super().__hash__()

    def __bool__(self) -> bool:
        return self.range.narrow(self.line, operator.ne)

    def __add__(self, other: Any) -> Any:
        line = self.line
        if isinstance(other, SweptNumber):
            if other.range is not self.range or not line.has_same_beneath(other.line):
                return self._give_up(operator.add, other)
            rise, offset = line.rise + other.line.rise, line.offset + other.line.offset
            return SweptNumber(self.range, replace(line, rise=rise, offset=offset))
        if not isinstance(other, int):
            return NotImplemented
        return SweptNumber(self.range, replace(line, offset=line.offset + other))

    __radd__ = __add__

    def __neg__(self) -> SweptNumber:
        return SweptNumber(self.range, replace(self.line, rise=-self.line.rise, offset=-self.line.offset))

    def __sub__(self, other: Any) -> Any:
        return self + -other if isinstance(other, int) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other if isinstance(other, int) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, SweptNumber) or not isinstance(other, int):
            return self._give_up(operator.mul, other)
        line = self.line
        return SweptNumber(self.range, replace(line, rise=line.rise * other, offset=line.offset * other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        if isinstance(other, SweptNumber) or not isinstance(other, int) or other <= 0:
            return self._give_up(operator.floordiv, other)
        return SweptNumber(self.range, _NumberLine(1, 0, self.line, other))

    def __mod__(self, other: Any) -> Any:
        return self._give_up(operator.mod, other)

    def __truediv__(self, other: Any) -> Any:
        return self._give_up(operator.truediv, other)

    def __rfloordiv__(self, other: Any) -> Any:
        self.range.pin()
        return other // super().__int__()

    def __int__(self) -> int:
        self.range.pin()
        return super().__int__()

    __index__ = __int__

    def _give_up(self, calculate: Callable[[Any, Any], Any], other: Any) -> Any:
        """Calculate with the values as they are: each is good for itself alone then."""
        if isinstance(other, SweptNumber):
            self.range.is_weighed = other.range.is_weighed = other.range is not self.range
            other = other.__int__()
        return calculate(self.__int__(), other)
