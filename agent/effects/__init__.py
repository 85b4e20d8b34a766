"""The only door to effects: runs a permitted call, keeps what was there before, undoes it, and finds out what came of
it.
"""
