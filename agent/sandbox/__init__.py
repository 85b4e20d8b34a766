"""Programs that are started for a call: watched from the start, confined where they must be, gone when it ends."""
