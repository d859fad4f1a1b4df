"""One module for each load tool whose results are understood."""
