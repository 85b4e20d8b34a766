"""Short work at a desk with mail, money, files, rooms and flights: what may be lost of it, and who attacks it."""
