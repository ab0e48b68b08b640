"""Local processes: started, limited in time, and ended in one place."""

from kernelrig.proc.interrupts import catch_signals, held_back, let_through
from kernelrig.proc.process import Completed, end_processes, run_process, stream_process

__all__ = [
    "Completed",
    "catch_signals",
    "end_processes",
    "held_back",
    "let_through",
    "run_process",
    "stream_process",
]
