"""Asks a model for a plan and proposes what it answers."""
