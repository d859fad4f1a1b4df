"""The past, through the same pipeline as the present."""
