"""Conformance cases for headless agent CLIs: an adapter's CLI passes each case, or its card says that it does not
support it.

`python -m beam.testing.conformance NAME` runs them for one adapter, including another package's. beam's own table of
agent CLIs comes from the same cases.
"""
