"""The only door to effects: runs a permitted call, keeps what was there, undoes it, and finds out what came of it."""
