"""What everything recorded derives from."""

from __future__ import annotations

from msgspec import Struct


class Noun(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """What an event can hold. A field is left out of the log where it equals its default, else it is written.

    Nothing recorded refers back to what holds it, so the garbage collector need not look at it: a session keeps many.
    """
