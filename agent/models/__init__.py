"""The models a session can ask."""
