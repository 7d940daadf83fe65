"""beam from Python: `Beam(root).send("claude", "hello")`. The command line calls only this."""

from beam.api.beam import Beam as Beam
from beam.config.resolve import settled as settled
