"""The nouns that cross floors, the protocols, strict JSON, and the codes of every decision."""
