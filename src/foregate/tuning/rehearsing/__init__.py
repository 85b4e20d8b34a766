"""Plays recorded sessions again through the loop: with the answers and outcomes of then, and without any effect."""
