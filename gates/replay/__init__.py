"""Judges recorded turns again: under another policy, and to find what a decision hung on."""
