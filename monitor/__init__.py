"""Watches speculative decoding of model servers and says whether it pays."""

__version__ = "0.1.0"
