"""Tools for developers; nothing of the product needs them."""
