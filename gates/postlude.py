"""The postlude: after the last change, has the session observed what was promised? Pure, like the gates."""

from __future__ import annotations

from foregate.gates.counts import count_fired
from foregate.policy.policy import Policy
from foregate.schemas.codes import PostludeCode
from foregate.schemas.judgement import Decision, Judgement
from foregate.schemas.turn import Turn


def judge_answer(turn: Turn, policy: Policy) -> Judgement:
    """Return the judgement on an answer after changes; the checks of the turn say what was observed since.

    What fails, or needs more than a look, is named to the model once (`verification_pending`); after that the
    answer passes marked `unverified`.
    """
    open_ = [check for check in turn.checks if check.result != "met"]
    if not open_:
        return build_judgement("verification_passed", "what was promised was seen after the last change", turn)
    told = count_fired(turn, "postlude", "enforce") > 0
    bound = policy.limits.verification_rounds
    spent = bound and turn.counters.verification_rounds >= bound
    names = "; ".join(f"{check.text[:120]} ({check.result})" for check in open_)
    if any(check.result in ("failed", "uncheckable") for check in open_) and not told and not spent:
        return build_judgement("verification_pending", f"not seen yet: {names}", turn)
    return build_judgement("unverified", f"not seen after the last change: {names}", turn)


def build_judgement(code: PostludeCode, summary: str, turn: Turn) -> Judgement:
    """Return the judgement that holds the one row of the postlude."""
    counts = {
        result: sum(check.result == result for check in turn.checks)
        for result in ("met", "failed", "unseen", "uncheckable")
    }
    return Judgement((), (Decision("postlude", code, summary=summary, detail={"checks": counts}),))
