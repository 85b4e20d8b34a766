"""What a session has observed, and who named a thing first."""
