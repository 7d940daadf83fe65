"""The Agent Client Protocol, version 1: one link for every agent that speaks it, and what each does in its own way.

An agent's package has a `Dialect` and makes its launch; the conversation itself is the same for all.
"""
