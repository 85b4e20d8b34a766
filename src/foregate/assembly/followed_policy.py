"""The policy file of a running session: looked at between two turns, read where it is another, refused where it is no
policy. The workspace's own file holds as it was read when the session was opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from foregate.agent.session.next_policy import NextPolicy
from foregate.policy.policy import Policy
from foregate.policy.source.layers import build_layer, read_text
from foregate.policy.source.load import LoadedPolicy, add_protected_globs, layer_policy, record_layers, restore_layer
from foregate.schemas.errors import PolicyError
from foregate.schemas.protocols import ToolSource
from foregate.schemas.strict_json import Json
from foregate.telemetry.log.masking import Secret

Stamp = tuple[int, ...]
_KEPT = "the policy in force stays"


class FollowedPolicy:
    """The policy of a session and where it came from: `loaded` is None for one that no file made.

    `file` is looked at first, and read by `hold` only then. `make_tools` returns the tools that keep to a policy, None
    for those there are, and `find_secrets` what of Foregate's own environment it calls secret.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file.absolute() if file is not None else None
        self._stamp = _read_stamp(self._file)
        self.loaded: LoadedPolicy | None = None
        self._guard: list[str] = []
        self._hash = ""
        self.make_tools: Callable[[Policy], ToolSource | None] = lambda policy: None
        self.find_secrets: Callable[[Policy], tuple[Secret, ...]] = lambda policy: ()

    def hold(self, policy: Policy, loaded: LoadedPolicy | None, guard: list[str]) -> None:
        """Take a policy as the one in force; `guard` are globs of Foregate's own files."""
        self._hash, self.loaded, self._guard = policy.hash, loaded, guard

    def __call__(self) -> NextPolicy | str:
        """Return the policy of the file where that is another now, a sentence where it cannot be used, else ""."""
        stamp = _read_stamp(self._file)
        if self._file is None or stamp == self._stamp:
            return ""
        try:
            text = read_text(self._file, regular=True)
            if _read_stamp(self._file) != stamp:
                # Somebody writes to it; the next turn looks again.
                return ""
            self._stamp = stamp
            return self._take(text)
        except PolicyError as error:
            self._stamp = stamp
            return f"{error}; {_KEPT}"

    def _take(self, text: str) -> NextPolicy | str:
        file = self._file
        assert file is not None
        if not text.strip():
            return f"{file} is empty now; write `{{}}` to have the default policy; until then {_KEPT}"
        own: Mapping[str, Json] = self.loaded.workspace if self.loaded is not None else {}
        loaded = layer_policy(build_layer(str(file), file.name, text), restore_layer(own))
        policy = add_protected_globs(loaded.policy, self._guard)
        if policy.hash == self._hash:
            return ""
        self.loaded, self._hash = loaded, policy.hash
        return NextPolicy(
            policy, record_layers(loaded, self._guard), self.make_tools(policy), self.find_secrets(policy)
        )


def _read_stamp(file: Path | None) -> Stamp:
    """Return what tells a file, and what it holds, from another; () for none."""
    with suppress(OSError):
        if file is not None:
            found = file.stat()
            return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return ()
