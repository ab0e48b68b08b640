"""What is wrong in PTX wherever it stands, judged over every path that the entry's tests allow.

The rules take no side where PTX does not: what is not certainly wrong passes. Called functions are
not followed; a rule that one of them could break says so, and does not pass.
"""

from __future__ import annotations

from kernelrig.model import Check
from kernelrig.ptx import Module
from kernelrig.static.ptx.bulk_groups import MIXED, NOT_COMMITTED
from kernelrig.static.ptx.cluster import PEER_BEFORE_CLUSTER_BARRIER
from kernelrig.static.ptx.convergence import ALIGNED_BY_ONE_LANE
from kernelrig.static.ptx.judge import Code, PtxRule, called_functions
from kernelrig.static.ptx.mbarriers import (
    BYTES_NEVER_EXPECTED,
    INIT_WITHOUT_FENCE,
    REMOTE_ARRIVE_SCOPE,
)
from kernelrig.static.ptx.proxy import COPY_BEFORE_THE_OTHERS, STORE_WITHOUT_PROXY_FENCE
from kernelrig.static.ptx.tensor_loads import LOAD_NOT_WAITED
from kernelrig.static.ptx.tensor_memory import (
    ADDRESS_NOT_PUBLISHED,
    ALLOC_AFTER_RELINQUISH,
    DEALLOC_WITHOUT_THE_PEER,
    LEAK,
)
from kernelrig.static.rule_check import not_judged

RULES: tuple[PtxRule, ...] = (
    STORE_WITHOUT_PROXY_FENCE,
    INIT_WITHOUT_FENCE,
    REMOTE_ARRIVE_SCOPE,
    LEAK,
    MIXED,
    NOT_COMMITTED,
    LOAD_NOT_WAITED,
    ALIGNED_BY_ONE_LANE,
    BYTES_NEVER_EXPECTED,
    ALLOC_AFTER_RELINQUISH,
    PEER_BEFORE_CLUSTER_BARRIER,
    DEALLOC_WITHOUT_THE_PEER,
    COPY_BEFORE_THE_OTHERS,
    ADDRESS_NOT_PUBLISHED,
)

__all__ = ["RULES", "check_ptx"]


def check_ptx(module: Module, entry: str, source: str = "") -> tuple[Check, ...]:
    """Judge the entry of that name by every rule; findings are on lines of the file `source`."""
    function = module.function(entry)
    if function is None or not function.instructions:
        there = ", ".join(f.name for f in module.entries) or "none"
        reason = f"no code of '{entry}' in {module.name}; entries: {there}"
        return tuple(not_judged(r.rule, reason) for r in RULES)
    code = Code(function, source, called_functions(module, function))
    return tuple(rule.answer(code) for rule in RULES)
