"""The version of beam, which the package's metadata takes from here."""

__version__ = "0.1.0"
