"""Scenarios: files that describe what several agents do, with checks on the results. The turns of a scenario can be
recorded and replayed.

This package is between the public API and the broker. The layers below it hold agents and run turns; the layers above
it decide who may run a scenario, and show results.
"""
