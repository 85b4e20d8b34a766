"""Model adapters; each returns only a ModelResponse."""
