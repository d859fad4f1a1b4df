"""What moves traffic, or starts servers: one small file for each kind, one protocol for all."""
