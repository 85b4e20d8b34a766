"""The gates, one to a file, and the prelude that asks them in order."""
