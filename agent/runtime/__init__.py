"""Using the tools of another process over a WebSocket."""
