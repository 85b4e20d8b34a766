"""The commands of `foregate`."""
