"""The Agent Client Protocol, version 1: one link for every agent that speaks it, and how the agents differ.

An agent's own package defines its `Dialect` and its launch. The conversation is the same for all agents.
"""
