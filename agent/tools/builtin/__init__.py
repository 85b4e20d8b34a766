"""The tools that come with Foregate: files, folders, commands, git, HTTP, memory."""
