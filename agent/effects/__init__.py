"""The only door to effects: runs a permitted call, stores what was there, undoes it, and finds out its outcome."""
