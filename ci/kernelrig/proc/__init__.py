"""Local processes: started, limited in time, and ended in one place."""

from kernelrig.proc.process import Completed, end_processes, run_process, stream_process

__all__ = ["Completed", "end_processes", "run_process", "stream_process"]
