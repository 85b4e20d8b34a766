"""What every section of the typed policy is made of, and the small ones: secrets, HTTP, promises, other processes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from foregate.schemas import strict_json
from foregate.schemas.strict_json import Json

Count = Annotated[int, Field(ge=0)]
"""A whole number; 0 means unlimited where it is a limit."""
Thousandths = Annotated[int, Field(ge=0, le=1000)]
"""A score or a threshold, 0 to 1000."""


class PolicySection(BaseModel):
    """Base of all sections: frozen, strictly typed, unknown keys refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, ignored_types=(cached_property,), defer_build=True
    )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values; what was computed from the old ones, such as the hash, does not go along."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied

    @cached_property
    def recorded(self) -> Mapping[str, Json]:
        """All values as JSON, as a session records them: one copy for everybody, not to be changed."""
        return self.model_dump(mode="json")

    @cached_property
    def hash(self) -> str:
        """SHA-256 over the canonical JSON of all values."""
        return strict_json.digest(self.recorded)


class Unsaid(PolicySection):
    """What a GET may hold that the user did not say, in characters; 0 is unlimited. `path` and `query` bound the words
    of the address and those of its query and headers; a single word counts from `content` on where it stands in the
    workspace, and from `random` on where it is no plain word."""

    path: Count
    query: Count
    content: Count
    random: Count


class Http(PolicySection):
    """Where `http_request` may go: host labels, `*.` for any one or more labels in front. Times in seconds. `unlisted`
    says whether a request to any other host is denied when it is judged, or fails when it runs."""

    hosts: tuple[str, ...]
    unlisted: Literal["fail", "deny"]
    unsaid: Unsaid
    timeout: Annotated[int, Field(ge=1)]
    max_bytes: Count


class Claims(PolicySection):
    """Words by which an answer claims an effect: `changed` any change, `sent` what goes out or runs, `finished` either.

    A word counts beside one of `signs`, or at the start of a sentence. A sentence with one of `doubts`, and a whole
    answer with one of `failures`, claims nothing.
    """

    changed: tuple[str, ...]
    sent: tuple[str, ...]
    finished: tuple[str, ...]
    signs: tuple[str, ...]
    doubts: tuple[str, ...]
    failures: tuple[str, ...]


class Postlude(PolicySection):
    """Checking what was claimed after changes, and answers that only promise."""

    mode: Literal["enforce", "off"]
    claims: Claims
    promises: tuple[str, ...]


class Serving(PolicySection):
    """Serving this process's tools to other agents. Times in seconds, sizes in bytes."""

    approvals: Literal["deny", "caller"]
    max_agents: Annotated[int, Field(ge=1)]
    max_waiting: Annotated[int, Field(ge=1)]
    max_message: Annotated[int, Field(ge=65536)]
    max_deadline: Annotated[int, Field(ge=1)]
    ping: Annotated[int, Field(ge=1)]
    away: Count


class Runtime(PolicySection):
    """Tools that run in another process. Times in seconds but for `backoff` (milliseconds), sizes in bytes."""

    declarations: Literal["believe", "raise"]
    timeout: Annotated[int, Field(ge=1)]
    patience: Count
    backoff: Annotated[int, Field(ge=1)]
    max_tools: Annotated[int, Field(ge=1)]
    max_message: Annotated[int, Field(ge=65536)]
    ping: Annotated[int, Field(ge=1)]


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
