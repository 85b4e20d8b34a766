"""The adapter for endpoints that speak Chat Completions: one file for what is asked, answered, refused, tried again."""
