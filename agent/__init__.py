"""Everything with effects: the loop, models, tools."""
