"""Plans at a terminal: shown, confirmed, and followed as they run."""
