"""Code that every layer may use: errors, clocks, durations, files, digests. Does not depend on any other package of
beam."""
