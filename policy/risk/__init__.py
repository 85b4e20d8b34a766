"""Pure functions that say how risky a call is, what was requested, and which rules apply."""
