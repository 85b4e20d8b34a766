"""What a process says about itself: diagnostics, and the mark that it holds a session."""
