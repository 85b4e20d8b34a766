"""What a tool is, the tools that come with Foregate, and those of functions and other processes."""
