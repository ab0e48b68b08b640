"""The processes that we start here."""

from kernelrig.proc.process import Completed, end_processes, run_process, stream_process

__all__ = ["Completed", "end_processes", "run_process", "stream_process"]
