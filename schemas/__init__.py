"""The nouns that cross floors, strict JSON, and the JSON Schemas sent to a model."""
