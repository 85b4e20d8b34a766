"""The adapter for endpoints that speak Chat Completions."""
