"""What of the policy is about answers: what they claim and what they promise."""

from __future__ import annotations

from typing import Literal

from foregate.policy.section import PolicySection


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
