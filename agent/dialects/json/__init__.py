"""Calls written as JSON into a model's text."""
