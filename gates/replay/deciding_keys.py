"""Which changed value of a policy decides that a call comes out differently: found by taking them back one by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from foregate.gates.prelude import Prelude, build_prelude
from foregate.gates.replay.redecide import Redecision, redecide
from foregate.policy.policy import Policy
from foregate.policy.source.difference import compare_policies, replace_values
from foregate.policy.source.strict_yaml import Data, Path
from foregate.schemas.judgement import Judgement
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import Turn

_MOST = 64
"""Changed values that are taken back one by one; where there are more, none is named."""


class PolicyComparison:
    """A recorded policy and another one, over the tools of a session, with everything that differs."""

    def __init__(self, before: Policy, after: Policy, catalogue: Catalogue) -> None:
        self.before, self.after, self.catalogue = before, after, catalogue
        self._back: dict[Path, tuple[Policy, Prelude] | None] = {}

    @cached_property
    def prelude(self) -> Prelude:
        """The gates of the other policy."""
        return build_prelude(self.after, self.catalogue)

    @cached_property
    def differences(self) -> dict[Path, tuple[Data, Data]]:
        """What differs, by path: the value before and after."""
        return compare_policies(self.before, self.after)

    def redecide(self, turn: Turn, recorded: Judgement) -> Redecision:
        """Judge a turn again under the other policy."""
        return redecide(turn, recorded, self.after, self.prelude, self.before, self.catalogue)

    def find_deciding_keys(self, turn: Turn, recorded: Judgement, calls: Sequence[str]) -> dict[str, tuple[Path, ...]]:
        """Return by call the changed values each of which, taken back alone, gives the recorded outcome."""
        if len(self.differences) == 1:
            return dict.fromkeys(calls, tuple(self.differences))
        found: dict[str, tuple[Path, ...]] = dict.fromkeys(calls, ())
        for path in self.differences if len(self.differences) <= _MOST else ():
            back = self._take_back(path)
            if back is None:
                continue
            again = redecide(turn, recorded, *back, self.before, self.catalogue)
            for call in again.calls:
                if call.call in found and call.change == "unchanged":
                    found[call.call] += (path,)
        return found

    def _take_back(self, path: Path) -> tuple[Policy, Prelude] | None:
        """Return the other policy with one value as before, None where that is no policy."""
        if path not in self._back:
            try:
                policy = replace_values(self.after, {path: self.differences[path][0]})
            except ValueError:
                self._back[path] = None
            else:
                self._back[path] = policy, build_prelude(policy, self.catalogue)
        return self._back[path]
