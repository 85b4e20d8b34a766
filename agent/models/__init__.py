"""The models a session can ask, and those that follow a script or understand a few plain requests."""
