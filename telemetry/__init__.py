"""The event log and what reads it."""
