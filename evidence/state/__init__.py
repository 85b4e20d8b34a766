"""Folds of a session's events: how the session, its task, its plan and its conversation stand."""
