"""What is said of a response that was not taken as it stands, in the same words in every dialect."""

from __future__ import annotations

NO_RESULTS = "results come from the tools, never from the model"


def note_cut(mark: str, rest: str, why: str) -> list[str]:
    """Return the note that the rest of a response was cut behind a mark; none where it was blank."""
    return [f"what stood after {mark} was cut ({len(rest)} characters): {why}"] if rest.strip() else []


def note_missing_end(end: str) -> str:
    """Return the note that something was taken for words because its end is missing."""
    return f"`{end[:60]}` never came; what stands before it was taken as words"


def note_open_thought(name: str) -> str:
    """Return the note that a thought went on to the end."""
    return f"`<{name}>` was not closed; what stands after it was taken as a thought"


def note_only_thought(closing: str) -> str:
    """Return the note that calls were dropped, since they turned out to stand in a thought."""
    return f"calls before `{closing}` stood in a thought; they were not made"
