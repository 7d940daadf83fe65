"""What every headless agent CLI is put through: cases that an adapter's CLI passes, or says that it can't.

`python -m beam.testing.conformance NAME` runs them for one adapter, also one of another package. beam's own table of
agent CLIs is made by the same cases.
"""
