"""Records only: what each step returns and the next one takes, frozen.

A step returns a new record and never edits one. Records that are written to files carry `schema`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.model.baseline import (
        BASELINE_CHECK,
        Baseline,
        BaselineComparison,
        Baselines,
        HostClass,
        TimedRun,
    )
    from kernelrig.model.bench import (
        MORE_MINUTES,
        Bench,
        BenchResult,
        BenchVerdict,
        Candidate,
        Clocked,
        Comparison,
        Environment,
        Slot,
        Timed,
    )
    from kernelrig.model.build import Build, Builds, FunctionResources, Toolchain, TriedSet
    from kernelrig.model.configuration import (
        AcceptedFinding,
        Budget,
        Case,
        Emulation,
        EmulatorEngine,
        Fault,
        Kernel,
        Plan,
        Remote,
        Shape,
        Stage,
        Variant,
    )
    from kernelrig.model.finding import Finding
    from kernelrig.model.history import Observed, RunEntry, Trend, TrendPoint
    from kernelrig.model.host import (
        Host,
        RecordedRemote,
        Shipped,
        Tool,
        executor,
        visible_gpu,
    )
    from kernelrig.model.job import (
        Command,
        CommandResult,
        EndedBy,
        Inspection,
        StageJob,
        StageResult,
    )
    from kernelrig.model.resource_usage import AcceptedBuild, AcceptedBuilds, Usage
    from kernelrig.model.rule import Latency, Role, Rule, SassRule, SassRules
    from kernelrig.model.run import (
        STOPPED_SCHEDULES,
        Check,
        Provenance,
        Run,
        StageRecord,
        join_checks,
    )
    from kernelrig.model.seed import DRAWN_BITS, draw_seed, input_seed
    from kernelrig.model.tunable import Tunable
    from kernelrig.model.verdict import (
        SCHEMA,
        DeviceKind,
        Function,
        Outcome,
        Pattern,
        Purpose,
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
    "DRAWN_BITS",
    "MORE_MINUTES",
    "SCHEMA",
    "STOPPED_SCHEDULES",
    "AcceptedBuild",
    "AcceptedBuilds",
    "AcceptedFinding",
    "Baseline",
    "BaselineComparison",
    "Baselines",
    "Bench",
    "BenchResult",
    "BenchVerdict",
    "Budget",
    "Build",
    "Builds",
    "Candidate",
    "Case",
    "Check",
    "Clocked",
    "Command",
    "CommandResult",
    "Comparison",
    "DeviceKind",
    "Emulation",
    "EmulatorEngine",
    "EndedBy",
    "Environment",
    "Fault",
    "Finding",
    "Function",
    "FunctionResources",
    "Host",
    "HostClass",
    "Inspection",
    "Kernel",
    "Latency",
    "Observed",
    "Outcome",
    "Pattern",
    "Plan",
    "Provenance",
    "Purpose",
    "RecordedRemote",
    "Remote",
    "Role",
    "Rule",
    "Run",
    "RunEntry",
    "SassRule",
    "SassRules",
    "Shape",
    "Shipped",
    "Slot",
    "Stage",
    "StageJob",
    "StageKind",
    "StageRecord",
    "StageResult",
    "Timed",
    "TimedRun",
    "Tool",
    "Toolchain",
    "Trend",
    "TrendPoint",
    "TriedSet",
    "Tunable",
    "Usage",
    "Variant",
    "Verdict",
    "broken",
    "combine",
    "draw_seed",
    "executor",
    "failed",
    "input_seed",
    "join_checks",
    "passed",
    "skipped",
    "unreadable",
    "visible_gpu",
]

__getattr__ = lazy_exports(__name__)
