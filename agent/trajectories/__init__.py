"""Sessions as data to learn from: a pure view of their events, and the formats it is written in."""
