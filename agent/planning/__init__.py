"""Plan mode, and the default configuration it comes with."""
