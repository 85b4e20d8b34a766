"""Plan mode: plans are read, validated, confirmed and run step by step."""
