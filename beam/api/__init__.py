"""beam's operations for Python programs. Programs, the command line among them, import them from `beam` itself."""

from beam.api.beam import Beam as Beam
from beam.config.resolve import with_state_dir as with_state_dir
