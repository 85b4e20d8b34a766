"""Plays recorded sessions again through the loop: with what was said and came of it then, and without any effect."""
