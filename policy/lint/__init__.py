"""What in a policy does not do what it looks like: remarks on its rules, gates, thresholds and lists of reads."""
