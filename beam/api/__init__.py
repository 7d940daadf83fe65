"""beam's operations for Python programs. Every program, including the command line, imports these operations from the
package `beam` itself."""

from beam.api.beam import Beam as Beam
from beam.config.resolve import with_state_dir as with_state_dir
