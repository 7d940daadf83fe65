"""Scenarios: several agents in one file, with checks on what happened, and turns that are recorded and replayed.

Below the public API, above the broker: agents are held and their turns are run by what is below; who may run a
scenario, and how a result is shown, is decided above.
"""
