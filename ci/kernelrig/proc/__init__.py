"""Local processes: started, limited in time, and ended in one place."""

from kernelrig.proc.deferral import signals_deferred
from kernelrig.proc.interrupts import catch_signals, held_back, let_through, signals_seen
from kernelrig.proc.pool import process_threads, run_jobs
from kernelrig.proc.process import (
    Attached,
    Completed,
    attached_process,
    end_processes,
    run_bounded,
    run_process,
    stream_process,
)

__all__ = [
    "Attached",
    "Completed",
    "attached_process",
    "catch_signals",
    "end_processes",
    "held_back",
    "let_through",
    "process_threads",
    "run_bounded",
    "run_jobs",
    "run_process",
    "signals_deferred",
    "signals_seen",
    "stream_process",
]
