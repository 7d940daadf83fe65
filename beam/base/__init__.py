"""Code that every layer may use: errors, clocks, durations, files, digests. Does not depend on any other package of
beam."""

__version__ = "0.1.0"  # the package's metadata takes it from here
