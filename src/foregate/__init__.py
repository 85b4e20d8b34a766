"""An agent loop that checks before it acts."""

__version__ = "0.1.0"
