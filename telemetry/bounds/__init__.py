"""What a labelled sample shows of everything it was drawn from, with a stated confidence; in whole numbers, exactly."""
