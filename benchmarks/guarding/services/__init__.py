"""What the tools beside the built-in ones work on, each declared as an honest operator would declare it."""
