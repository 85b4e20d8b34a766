"""Reads a log: verifies it, lists its decisions, and sums it up."""
