"""What the text dialects share: their contract, and telling what is code, quoted or prose."""
