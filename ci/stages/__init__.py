"""What runs on the box: argv builders for each kind of stage, and readers of what came back.

Pure: nothing here starts a process or opens a connection, so that any client that holds a run
directory reaches the same verdicts from it.
"""

from ci.stages.bench import bench_job, read_bench
from ci.stages.context import Context
from ci.stages.emulated import MAX_IMAGES, OBSERVERS, OUTPUT, Launch, launches
from ci.stages.emulated_report import Emulated, read_emulated
from ci.stages.emulated_verdict import emulated_findings, tell_finding
from ci.stages.every_output import whole_output
from ci.stages.jobs import stage_jobs, why_not
from ci.stages.preflight import preflight
from ci.stages.result import Clock
from ci.stages.sanitizer import SHIPPED_SANITIZER
from ci.stages.timing import load_timing, nearest_rank
from ci.stages.verdicts import read_stage

__all__ = [
    "MAX_IMAGES",
    "OBSERVERS",
    "OUTPUT",
    "SHIPPED_SANITIZER",
    "Clock",
    "Context",
    "Emulated",
    "Launch",
    "bench_job",
    "emulated_findings",
    "launches",
    "load_timing",
    "nearest_rank",
    "preflight",
    "read_bench",
    "read_emulated",
    "read_stage",
    "stage_jobs",
    "tell_finding",
    "whole_output",
    "why_not",
]
