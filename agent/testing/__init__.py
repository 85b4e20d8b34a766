"""A model and a person that follow a script, for tests."""
