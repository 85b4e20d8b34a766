"""The postlude: whether an answer after changes may pass. Pure."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from foregate.policy.policy import Policy
from foregate.schemas.codes import PostludeCode
from foregate.schemas.judgement import Decision, Judgement
from foregate.schemas.turn import CheckResult, Turn


def judge_answer(turn: Turn, policy: Policy) -> Judgement:
    """Judge whether what was promised was observed after the last change: the postlude, as pure as the gates.

    What fails, or needs more than a look, is named to the model (`verification_pending`) in each round of those that
    the policy allows but the last, in which the answer passes marked `unverified`. The checks of the turn say what was
    observed.
    """
    code: PostludeCode = "verification_passed"
    summary = "what was promised was seen after the last change"
    open_ = [check for check in turn.checks if check.result != "met"]
    if open_:
        is_last = 0 < policy.limits.verification_rounds <= turn.counters.verification_rounds + 1
        pending = any(check.result in ("failed", "uncheckable") for check in open_) and not is_last
        names = "; ".join(f"{check.text[:120]} ({check.result})" for check in open_)
        code = "verification_pending" if pending else "unverified"
        summary = f"not seen yet: {names}" if pending else f"not seen after the last change: {names}"
    counts = Counter(check.result for check in turn.checks)
    checks = {result: counts[result] for result in get_args(CheckResult)}
    return Judgement((), (Decision("postlude", code, summary=summary, detail={"checks": checks}),))
