"""Questions to a log: typed rows of what was decided, verified, labelled and kept; everything else only shows them."""
