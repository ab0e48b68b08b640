"""What runs on the box: argv builders for each kind of stage, and readers of what came back.

Pure: nothing here starts a process or opens a connection, so that any client that holds a run
directory reaches the same verdicts from it.
"""

from ci.stages.bench import bench_job, read_bench
from ci.stages.context import Context
from ci.stages.jobs import stage_jobs, why_not
from ci.stages.preflight import preflight
from ci.stages.result import Clock
from ci.stages.sanitizer import SHIPPED_SANITIZER
from ci.stages.timing import load_timing, nearest_rank
from ci.stages.verdicts import read_stage

__all__ = [
    "SHIPPED_SANITIZER",
    "Clock",
    "Context",
    "bench_job",
    "load_timing",
    "nearest_rank",
    "preflight",
    "read_bench",
    "read_stage",
    "stage_jobs",
    "why_not",
]
