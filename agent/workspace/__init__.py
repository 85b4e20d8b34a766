"""The folder a session works in, its git repository and the processes it starts, confined."""
