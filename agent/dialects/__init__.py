"""How a model says what it wants: a dialect parses a response into calls and formats results back; it never judges."""
