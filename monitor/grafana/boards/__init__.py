"""One module for each dashboard; ``build`` writes them all."""
