"""Cases a policy is tested by: recorded decisions, cut to what decides them, and policies moved to see who notices."""
