"""Scenarios: several agents in one file, with checks on what happened, and turns that are recorded and replayed.

It is between the public API and the broker: the layers below hold agents and run turns; the layers above decide who may
run a scenario, and show results.
"""
