"""What a call would do to the world, in the order from harmless to worst."""

from __future__ import annotations

from enum import StrEnum


class Effect(StrEnum):
    """The effect of one concrete call. Definition order is strength: the later, the more dangerous."""

    OBSERVATION = "observation"
    CREATE = "create"
    EDIT = "edit"
    MOVE = "move"
    DELETE = "delete"
    COMMIT = "commit"
    SEND = "send"
    EXECUTE = "execute"
    ADMINISTER = "administer"
    UNKNOWN = "unknown"

    def __init__(self, word: str) -> None:
        self.changes = word != "observation"
        """Whether the effect is anything but an observation."""

    def covers(self, other: Effect) -> bool:
        """Whether leave for this effect is leave for `other`: delete covers edit, edit covers create.

        Nothing covers `unknown`, not even itself: only the exact digest of a call does.
        """
        if other is Effect.UNKNOWN or self is Effect.UNKNOWN:
            return False
        return self is other or other in _COVERED.get(self, ())


def worse_of(first: Effect, second: Effect) -> Effect:
    """Return the more dangerous of two effects."""
    return first if _STRENGTH[first] >= _STRENGTH[second] else second


_STRENGTH = {effect: rank for rank, effect in enumerate(Effect)}
_COVERED = {
    Effect.EDIT: (Effect.CREATE,),
    Effect.DELETE: (Effect.EDIT, Effect.CREATE),
}
