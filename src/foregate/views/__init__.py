"""What a person sees: rows at a terminal, and pages of a session and a decision."""
