"""The policy as data: typed, loaded, and the pure functions that read it."""
