"""What a sandbox changed, as the bytes it is recorded in."""

from __future__ import annotations

from foregate.policy.source.load import default_policy
from foregate.schemas import strict_json
from foregate.schemas.sandbox import PathChange, PathState, SandboxedChanges, decode_changes
from foregate.schemas.tool_spec import Effect


def test_as_many_changes_are_read_again_as_a_command_may_make() -> None:
    most, after = default_policy().commands.sandbox.files, PathState("file", "0" * 64, 0o644, 1, "", "0:0")
    changes = (PathChange("a/path/of/some/length", Effect.CREATE, PathState(), after),) * (most // 4)
    data = SandboxedChanges(changes).encode()
    assert len(data) > strict_json.MAX_BYTES
    assert decode_changes(data) == changes
