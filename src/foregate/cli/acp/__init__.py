"""The server for editors, which speak the Agent Client Protocol on standard input and output."""
