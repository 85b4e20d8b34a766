"""What a tool is, and how several become one source."""
