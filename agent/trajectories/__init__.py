"""Sessions as data to learn from: a pure view of their events, and the formats it is written in.

It lies here and not with the log because what the model was told of an event is the agent's to say.
"""
