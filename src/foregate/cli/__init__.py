"""The command line."""

from __future__ import annotations

_MADE = 150_000
"""Objects that are made before one looks for circles among them: what a start makes stays, so nothing is found."""


def main() -> None:
    """Run the command line; heavy imports wait until a command needs them."""
    import gc
    import sys

    gc.set_threshold(_MADE, *gc.get_threshold()[1:])
    from foregate.cli.own_environment import hide_environment

    # Before anything could be started that would read it.
    hide_environment()

    from foregate.views.terminal.standard_streams import open_standard_streams

    open_standard_streams()

    from foregate.cli.app import main as run

    code = run()
    # Else Python looks for circles among everything once more as it ends, which takes a tenth of a short command.
    gc.freeze()
    sys.exit(code)
