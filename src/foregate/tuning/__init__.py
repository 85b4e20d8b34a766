"""Tuning a policy: what recorded decisions become at other values, cases that test it, and remarks on what it says."""
