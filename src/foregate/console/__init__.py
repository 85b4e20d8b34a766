"""The console: the pages of one home on loopback, to see what was decided, answer what waits and label decisions."""
