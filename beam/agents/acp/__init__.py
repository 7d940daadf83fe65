"""The Agent Client Protocol (ACP), version 1: one link for every agent that speaks it, and the differences between the
agents.

An agent's own package defines its `Dialect` and its launch. The conversation is the same for all agents. `version2`
translates version 2 of the protocol.
"""
