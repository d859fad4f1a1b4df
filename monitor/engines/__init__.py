"""What a page of each engine means."""
