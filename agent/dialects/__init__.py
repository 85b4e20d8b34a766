"""How a model writes its calls: each dialect reads its responses and formats its results; none judges."""
