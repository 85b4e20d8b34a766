"""What of a policy holds where tools are served to another agent."""

from __future__ import annotations

from foregate.agent.serving.tool_server import narrow_policy
from foregate.policy.source.load import default_policy


def test_whose_words_a_call_rests_on_is_asked_where_the_person_speaks_and_not_here() -> None:
    served = narrow_policy(default_policy())
    assert served.mandate.mode == "off"
    assert (served.rules.mode, served.evidence.mode, served.approval.mode) == ("enforce", "enforce", "scope")
