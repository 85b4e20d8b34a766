"""`foregate policy show`: what holds, and where it comes from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from foregate.cli.commands import options
from foregate.cli.commands.options import take
from foregate.cli.commands.policy import app, require_folder


@app.command("show")
def show(
    effective: Annotated[
        bool, take("--effective", "Every value in force and where it comes from, not only yours.")
    ] = False,
    policy: options.PolicyFile = None,
    workspace: options.WorkspaceFolder = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Show what your files change in the default policy, or with --effective everything."""
    from foregate.assembly.choices import find_policy_file
    from foregate.policy.source.load import SHIPPED, load_policy_layers
    from foregate.policy.source.values import build_policy_rows, format_policy

    loaded = load_policy_layers(find_policy_file(policy, os.environ), require_folder(workspace))
    if as_json:
        rows = build_policy_rows(loaded, effective)
        options.print_json({"hash": loaded.policy.hash, "sources": list(loaded.sources), "values": rows})
        return
    for line in format_policy(loaded, effective):
        options.print_text(line)
    options.print_text(f"# shipped, for --policy NAME: {', '.join(SHIPPED)}")
