"""The adapter for OpenAI-compatible endpoints: a file each for what is asked, answered, refused and tried again."""
