"""The command line."""

from __future__ import annotations


def main() -> None:
    """Run the command line; heavy imports wait until a command needs them."""
    import sys

    from foregate.cli.own_environment import hide_environment

    hide_environment()  # before anything could be started that would read it

    from foregate.cli.terminal.standard_streams import open_standard_streams

    open_standard_streams()

    from foregate.cli.commands.app import main as run

    sys.exit(run())
