"""Answers what another policy would have decided, and why a decision was made."""
