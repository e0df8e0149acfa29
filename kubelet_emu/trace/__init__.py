"""The trace: one ordered stream of typed records, the spine that every view of a run reads.

``schema`` says what a record is, ``ndjson`` writes and reads it, ``recorder`` takes it down during a run,
``difference`` finds where two runs part.
"""

from kubelet_emu.trace.difference import Difference, diff
from kubelet_emu.trace.ndjson import dumps, read_lines, write_lines
from kubelet_emu.trace.recorder import TraceRecorder
from kubelet_emu.trace.schema import FORMAT, Record, Trace

__all__ = [
    "FORMAT",
    "Difference",
    "Record",
    "Trace",
    "TraceRecorder",
    "diff",
    "dumps",
    "read_lines",
    "write_lines",
]
