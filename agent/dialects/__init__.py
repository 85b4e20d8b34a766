"""How a model says what it wants: picks the dialect that parses its responses and formats its results; none judges."""
