"""`foregate demo`."""

from __future__ import annotations

from foregate.cli.terminal.waiting import run_async


def demo() -> None:
    """Show a session in a temporary workspace, with every ruling; needs no model and no network."""
    from foregate.cli.demo.demo import run_demo

    run_async(run_demo())
