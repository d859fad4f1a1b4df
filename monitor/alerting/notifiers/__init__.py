"""The ways to tell somebody, one file each."""
