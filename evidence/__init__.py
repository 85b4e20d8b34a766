"""What this session has observed, and who said what first."""
