"""Programs that are started for a call: watched from the start, confined where they must be, given of the network only
what is granted, gone when they end."""
