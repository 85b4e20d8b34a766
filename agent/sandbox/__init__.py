"""Programs that are started for a call: watched from their start, and gone when the call or Foregate has ended."""
