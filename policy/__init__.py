"""The policy as data: every threshold, weight and list, typed."""
