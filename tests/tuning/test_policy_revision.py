"""What a change makes of recorded policies."""

from __future__ import annotations

from foregate.policy.source.layers import Layer
from foregate.policy.source.load import default_policy, replace_user_layer
from foregate.schemas.strict_json import Json
from foregate.tuning.piece_judge import Revision

STRICT = Layer("new.yaml", "new.yaml", {"uncertainty": {"threshold": 300}}, {})
LAYERS: list[dict[str, Json]] = [
    {"from": {"narration.mode": "old.yaml:1"}},
    {"from": {"holds": "other.yaml:2"}},
    {"workspace": {"narration": {"min_chars": 60}}},
    {"guarded": ["own/**"]},
    {"spent": [{"limits": {"turns": 40}}]},
]


def test_policies_that_differ_in_the_users_file_alone_come_to_one_and_all_others_to_their_own() -> None:
    revision, before = Revision(STRICT), default_policy()
    made = [revision.revise(before, layers) for layers in LAYERS]
    assert [policy.hash for policy in made] == [replace_user_layer(STRICT, layers).hash for layers in LAYERS]
    assert made[0] is made[1], "it is made once"
    assert len({policy.hash for policy in made}) == len(LAYERS) - 1
