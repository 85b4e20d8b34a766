"""The event log: a hash chain of events, where it is kept, and what is masked in it."""
