"""The command line."""

from __future__ import annotations


def main() -> None:
    """Run the command line; heavy imports wait until a command needs them."""
    import sys

    from foregate.cli.app import main as run

    sys.exit(run())
