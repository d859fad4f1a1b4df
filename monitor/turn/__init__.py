"""What is done with each look at a target, in the daemon and in the past alike."""
