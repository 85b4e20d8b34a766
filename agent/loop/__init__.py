"""The loop: asks the model, has each response judged, and is the only door to effects, which it can undo."""
