"""The diagnostics a process writes about itself."""
