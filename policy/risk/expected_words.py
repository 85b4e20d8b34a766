"""Whether words of a command can be those that a rule names, where some are known only when it runs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from foregate.policy.risk.globs import matches_text

_ASIDE = ("-", "<", ">")
"""What an option or a redirection begins with: the word behind it may be its value."""


def compare_words(
    wanted: Sequence[str], words: Sequence[str], is_open: Callable[[str], bool]
) -> Literal["open", "other", "end"]:
    """Return what is met first among words: one that `is_open` and may be any, or one that is none of those wanted.

    `end` is neither. Options are passed over, each with at most one value.

    >>> [compare_words(["push"], line.split(), "$a".__eq__) for line in ("-C x $a", "add $a", "-C x push", "")]
    ['open', 'other', 'end', 'end']
    """
    named, may_be_value = [word for word in wanted if not word.startswith("-")], False
    for word in words:
        if is_open(word):
            return "open"
        if not word.startswith(_ASIDE) and named:
            if matches_text(named[0], word):
                del named[0]
            elif not may_be_value and not word.isdigit():
                return "other"
        may_be_value = word.startswith(_ASIDE)
    return "end"
