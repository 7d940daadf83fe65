"""Conformance cases for headless agent CLIs. An adapter's CLI must pass each case, unless the adapter's card says that
the tested capability is not supported.

`python -m beam.testing.conformance NAME` runs the cases for one adapter, built in or from another package. beam's own
table of agent CLIs comes from the same cases.
"""
