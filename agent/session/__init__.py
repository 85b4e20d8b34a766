"""A session: its log, its state and what the model is shown, kept within the model's limits."""
