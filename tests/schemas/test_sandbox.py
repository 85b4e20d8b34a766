"""What a sandbox changed, as the bytes it is recorded in."""

from __future__ import annotations

from foregate.schemas import strict_json
from foregate.schemas.sandbox import PathChange, PathState, SandboxedChanges, decode_changes
from foregate.schemas.tool_spec import Effect


def test_as_many_changes_are_read_again_as_a_command_may_make() -> None:
    made = PathChange("folder/" * 500, Effect.CREATE, PathState(), PathState("file", "0" * 64, 0o644, 1, "", "0:0"))
    data = SandboxedChanges((made,) * 2500).encode()
    assert len(data) > strict_json.MAX_BYTES
    assert decode_changes(data) == (made,) * 2500
