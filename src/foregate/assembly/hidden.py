"""What is masked in what leaves the log for others: what the policy in force calls sensitive, and the secrets held."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from foregate.agent.workspace.secret_values import FileSecrets
from foregate.assembly.choices import choose_policy
from foregate.assembly.own_secrets import find_own_secrets
from foregate.assembly.setting import SessionOptions
from foregate.telemetry.log.masking import Hidden


def find_hidden(workspace: Path, policy: str | None = None, environ: Mapping[str, str] = os.environ) -> Hidden:
    """Return what is masked in an export made in a folder, under a policy or the one in force there."""
    _, in_force = choose_policy(SessionOptions(workspace=workspace, policy=policy, environ=environ), workspace)
    own = (*find_own_secrets(environ, in_force.sensitive), *FileSecrets(workspace, in_force).find())
    return (*own, *in_force.sensitive.expressions)
