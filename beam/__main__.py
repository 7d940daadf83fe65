"""Runs the command `beam` for `python -m beam`."""

from beam.cli.main import main

if __name__ == "__main__":
    main()
