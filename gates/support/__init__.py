"""What helps the gates: the planners, what plans cover, the sheets people answer, schemas of arguments."""
