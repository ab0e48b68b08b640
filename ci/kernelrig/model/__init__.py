"""The records that flow from step to step, and the verdicts they carry.

Everything here is frozen: a step returns a new record, it never edits one. Records that are written
to disk carry `schema`.
"""

from kernelrig.model.baseline import BASELINE_CHECK, Baseline, Baselines, Beside, BoxClass, TimedRun
from kernelrig.model.bench import (
    Bench,
    BenchResult,
    Clocked,
    Comparison,
    Contender,
    Surroundings,
    Timed,
    Turn,
    Word,
)
from kernelrig.model.build import Build, Builds, FunctionResources, Toolchain
from kernelrig.model.configuration import (
    AcceptedFinding,
    Budget,
    Case,
    Emulation,
    Kernel,
    Plan,
    Remote,
    Shape,
    Stage,
    Variant,
)
from kernelrig.model.host import Box, Shipped, Tool, executor, visible_gpu
from kernelrig.model.job import Command, CommandResult, EndedBy, StageJob, StageResult
from kernelrig.model.rule import Latency, Role, Rule, SassRule, SassRules
from kernelrig.model.run import Check, Finding, Provenance, Run, StageRecord, join_checks
from kernelrig.model.tunable import Tunable
from kernelrig.model.tunable_set import TriedSet
from kernelrig.model.usage import AcceptedBuild, AcceptedBuilds, Usage
from kernelrig.model.verdict import (
    SCHEMA,
    DeviceKind,
    Function,
    Outcome,
    Pattern,
    StageKind,
    Verdict,
    broken,
    combine,
    failed,
    passed,
    skipped,
    unreadable,
)

__all__ = [
    "BASELINE_CHECK",
    "SCHEMA",
    "AcceptedBuild",
    "AcceptedBuilds",
    "AcceptedFinding",
    "Baseline",
    "Baselines",
    "Bench",
    "BenchResult",
    "Beside",
    "Box",
    "BoxClass",
    "Budget",
    "Build",
    "Builds",
    "Case",
    "Check",
    "Clocked",
    "Command",
    "CommandResult",
    "Comparison",
    "Contender",
    "DeviceKind",
    "Emulation",
    "EndedBy",
    "Finding",
    "Function",
    "FunctionResources",
    "Kernel",
    "Latency",
    "Outcome",
    "Pattern",
    "Plan",
    "Provenance",
    "Remote",
    "Role",
    "Rule",
    "Run",
    "SassRule",
    "SassRules",
    "Shape",
    "Shipped",
    "Stage",
    "StageJob",
    "StageKind",
    "StageRecord",
    "StageResult",
    "Surroundings",
    "Timed",
    "TimedRun",
    "Tool",
    "Toolchain",
    "TriedSet",
    "Tunable",
    "Turn",
    "Usage",
    "Variant",
    "Verdict",
    "Word",
    "broken",
    "combine",
    "executor",
    "failed",
    "join_checks",
    "passed",
    "skipped",
    "unreadable",
    "visible_gpu",
]
