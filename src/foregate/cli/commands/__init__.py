"""The commands of `foregate`, one to a file."""
