"""Measured claims of the README, each with one command."""
