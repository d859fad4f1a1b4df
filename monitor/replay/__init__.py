"""What would have happened: other rules, thresholds and policies over the stored past."""
