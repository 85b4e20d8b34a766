"""Forbids namespaces and mounts as a container does, then looks what holds a workspace.

It is given the workspace, and prints as JSON the tier with its reason and cure, and what came of some commands.
"""

from __future__ import annotations

import asyncio
import errno
import json
import sys
from pathlib import Path

from foregate.agent.sandbox.restrictions import (
    ALLOW,
    IF_SET,
    LOAD,
    NEW_NAMESPACES,
    NUMBER,
    assemble,
    give,
    load_filter,
    low,
    refuse_with,
)
from foregate.agent.sandbox.restrictions import when_called as when
from foregate.agent.sandbox.system_calls import call
from foregate.agent.tools.commands import run_command
from foregate.agent.workspace.confinement import find_tier
from foregate.agent.workspace.git_repository import find_repository
from foregate.agent.workspace.local import LocalWorkspace
from foregate.policy.source.load import default_policy

FORBIDDEN = (
    *("unshare", "setns", "mount", "umount2", "pivot_root"),
    *("open_tree", "move_mount", "fsopen", "fsmount", "mount_setattr"),
)
WHO = dict.fromkeys(
    ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"), "a@example.org"
)


def forbid_namespaces() -> None:
    """Load such a filter for this process and all it starts."""
    denied = give(refuse_with(errno.EPERM))
    program = [(LOAD, 0, 0, NUMBER)]
    for name in FORBIDDEN:
        program += when(name, denied)
    program += when("clone3", give(refuse_with(errno.ENOSYS)))
    program += when("clone", (LOAD, 0, 0, low(0)), (IF_SET, 0, 1, NEW_NAMESPACES), denied, give(ALLOW))
    call("prctl", 38, 1, 0, 0, 0)  # no_new_privs
    load_filter(assemble([*program, give(ALLOW)]))


async def main() -> None:
    """Print what holds the workspace and what came of the commands."""
    forbid_namespaces()
    policy, workspace = default_policy(), LocalWorkspace(Path(sys.argv[1]))
    probe = find_tier(workspace, policy)
    outcomes = {}
    for words in (["cat", "a.txt"], ["cat", ".env"], ["grep", "-r", "canary", "."]):
        result = await run_command(workspace, policy).run({"argv": words})
        outcomes[" ".join(words)] = result.content
    repository = find_repository(workspace, policy, ".")
    await repository.run_async("add", "--", "a.txt")
    await repository.run_async("commit", "--message=first", more=WHO)
    outcomes["git log"] = repository.run("log", "--format=%s").out.bytes().decode()
    print(json.dumps({**probe, "outcomes": outcomes}))


if __name__ == "__main__":
    asyncio.run(main())
