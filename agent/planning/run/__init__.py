"""Runs a confirmed plan task by task, fills in what was left open, rolls back, and reports."""
