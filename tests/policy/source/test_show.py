"""Showing a policy: what differs, what holds, and where it comes from."""

from __future__ import annotations

from pathlib import Path

from foregate.policy.source.load import load_policy_layers
from foregate.policy.source.values import build_policy_rows, format_policy


def test_only_what_your_files_change_is_shown_unless_everything_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("limits: {turns: 5}\nrules: {list: [{id: x, then: ask, tool: y}]}\n")
    (tmp_path / ".foregate.yaml").write_text("limits: {turns: 40, tokens: 9}\n")
    loaded = load_policy_layers(tmp_path / "policy.yaml", tmp_path)
    lines = format_policy(loaded)
    assert [" ".join(line.split()) for line in lines] == [
        "limits.turns: 5 # policy.yaml:1",
        "limits.tokens: 9 # workspace .foregate.yaml:1",
        'rules.list.x: {"id": "x", "then": "ask", "tool": "y"} # policy.yaml:2',
        "# left as it is, which is tighter: limits.turns",
    ]
    everything = format_policy(loaded, effective=True)
    assert len(everything) > 100
    assert any(line.startswith("approval.mode: ") and line.endswith("# default") for line in everything)


def test_nothing_changed_is_said() -> None:
    assert format_policy(load_policy_layers()) == ["nothing differs from the default policy"]


def test_the_rows_hold_whole_values_for_every_key_in_force() -> None:
    rows = build_policy_rows(load_policy_layers(), effective=True)
    assert {"key": "approval.mode", "value": "scope", "from": "default"} in rows
    assert all(row["value"] is not None for row in rows)
    phrases = next(row["value"] for row in rows if row["key"] == "contract.mutation")
    assert "fix" in phrases
    assert all(line.isprintable() for line in format_policy(load_policy_layers(), effective=True))
