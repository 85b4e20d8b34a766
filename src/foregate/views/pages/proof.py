"""What proving a session came to, as a page says it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foregate.tuning.proving import SessionProof
from foregate.views.pages.texts import cut_text
from foregate.views.pages.views import ProofView


def describe_proof(proof: SessionProof, hide: Callable[[str], str] = str) -> ProofView:
    """Return what proving a session came to, as a page shows it; `hide` masks what a sentence quotes of the log."""
    found = proof.found
    further = [*(defect.message for defect in found.defects[1:]), *proof.remarks]
    says, *more = (cut_text(hide(one)) for one in (found.sentence, *further))
    about: dict[str, Any] = {"scope": proof.scope, "more": tuple(more)}
    if found.defects:
        return ProofView("broken", says, found.events, found.hash, "deny", **about)
    if found.proven:
        return ProofView("proven", says, found.events, found.hash, "allow", **about)
    return ProofView("consistent", says, found.events, found.hash, "ask", **about)
