"""The section of the policy that says what is secret."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from foregate.policy.section import Count, PolicySection


class SecretValues(PolicySection):
    """When a value of a secret file is a secret: its least length in characters under the name of one, and under any
    other, where it also needs so many thousandths of a bit of entropy per character. `named` 0 is never."""

    named: Count
    random: Annotated[int, Field(ge=8)]
    entropy: Count
    besides: tuple[str, ...]


class Sensitive(PolicySection):
    """What is masked before an event is written: matches of RE2 patterns, and values of Foregate's own secrets and of
    secret files. `names` are globs for the names of such values, in upper case, and `common` the values, in lower case,
    that are no secret whatever their name. `formats` are patterns by name."""

    patterns: tuple[str, ...]
    formats: dict[str, str]
    names: tuple[str, ...]
    common: tuple[str, ...]
    values: SecretValues

    @property
    def expressions(self) -> tuple[str, ...]:
        """All RE2 patterns, in order."""
        return (*self.patterns, *self.formats.values())
