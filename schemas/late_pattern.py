"""Regular expressions that are compiled at their first use: a start uses a tenth of those that its modules name."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _LatePattern:
    """Stands for a pattern; each of its methods is asked of the compiled one once, and then found without a call."""

    def __init__(self, source: Any, flags: int) -> None:
        self._given = source, flags

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(re.compile(*self._given), name)
        return found


def compile_late(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that `re` compiles when it is first matched, with the flags of `re`.

    It is no `re.Pattern` for the functions of `re`: use its own methods. A mistake in it raises re.error at that use.

    >>> compile_late("(?i)yes|y").fullmatch("Y") is not None
    True
    """
    return cast("re.Pattern[AnyStr]", _LatePattern(source, flags))
