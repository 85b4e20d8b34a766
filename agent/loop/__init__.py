"""The loop: asks the model, has each response judged, does what was allowed, and answers every call."""
