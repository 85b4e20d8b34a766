"""What a model is shown: results as text, long texts cut, conversations kept within a limit."""
