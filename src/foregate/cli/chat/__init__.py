"""The chat at a terminal, and its commands."""
