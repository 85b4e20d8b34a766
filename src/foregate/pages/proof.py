"""What verifying a session found, as a page says it."""

from __future__ import annotations

from foregate.pages.texts import cut_text
from foregate.pages.views import ProofView
from foregate.telemetry.audit.verify import Verification


def describe_verification(found: Verification) -> ProofView:
    """Return what verifying a session found, as a page shows it."""
    if found.defects:
        return ProofView("broken", cut_text(found.sentence), found.events, found.hash, "deny")
    if found.proven:
        return ProofView("proven", cut_text(found.sentence), found.events, found.hash, "allow")
    return ProofView("consistent", cut_text(found.sentence), found.events, found.hash, "ask")
