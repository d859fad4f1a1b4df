"""Baselines: where curves without speculation come from, and what is compared with them."""
