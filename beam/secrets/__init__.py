"""Finds keys and tokens in text, and removes them."""
