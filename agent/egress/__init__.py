"""What a sandbox is given of the network, served from outside of it, and what it wanted and was not given."""
