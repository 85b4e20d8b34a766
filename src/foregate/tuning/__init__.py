"""Trying and explaining policies: what recorded decisions rest on, and what they become at other values."""
