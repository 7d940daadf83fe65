"""`python -m beam` is `beam`."""

from beam.cli.main import main

if __name__ == "__main__":
    main()
