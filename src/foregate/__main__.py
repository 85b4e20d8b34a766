"""`python -m foregate` is the command line."""

from foregate.cli import main

main()
