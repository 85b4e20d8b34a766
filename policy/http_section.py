"""The section of the policy about requests over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from foregate.policy.section import Count, PolicySection


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
