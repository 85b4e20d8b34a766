"""Everything with effects: asking models, looking, running calls, undoing them."""
