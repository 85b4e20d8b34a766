"""Calls written as tags into a model's text, in the two forms models know: actions, and tools inside services."""
