"""A model without a network that understands a few plain requests, so that everything can be tried out."""
