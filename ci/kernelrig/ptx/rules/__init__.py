"""The rules of PTX that this project checks: text, section, suggested fix and severity, once each.

Static rules (kernelrig.static.ptx) prove some of them for all paths, the emulator (kernelrig.emu)
sees them broken in a run. A rule that both check is one row, so that both name it alike. Rows with
a `code` are static rules; the emulator's findings carry `name` as their rule.
"""

from kernelrig.ptx.rules.emulated import EMULATED_RULES
from kernelrig.ptx.rules.mbarrier import MBARRIER_RULES
from kernelrig.ptx.rules.order import ORDER_RULES
from kernelrig.ptx.rules.proven import (
    ADDRESS_NOT_PUBLISHED,
    ALIGNED_BY_ONE_LANE,
    ALLOC_AFTER_RELINQUISH,
    BYTES_NEVER_EXPECTED,
    COPY_BEFORE_THE_OTHERS,
    COPY_NOT_COMMITTED,
    DEALLOC_WITHOUT_THE_PEER,
    INIT_WITHOUT_FENCE,
    LOAD_NOT_WAITED,
    MIXED_BULK_GROUPS,
    PEER_BEFORE_CLUSTER_BARRIER,
    REMOTE_ARRIVE_SCOPE,
    STATIC_RULES,
    STORE_WITHOUT_PROXY_FENCE,
    TENSOR_MEMORY_LEAK,
)
from kernelrig.ptx.rules.row import IsaRule
from kernelrig.ptx.rules.uninitialised import VALUE_RULES

ISA_RULES: dict[str, IsaRule] = {
    rule.name: rule
    for rule in (*STATIC_RULES, *ORDER_RULES, *VALUE_RULES, *MBARRIER_RULES, *EMULATED_RULES)
}

__all__ = [
    "ADDRESS_NOT_PUBLISHED",
    "ALIGNED_BY_ONE_LANE",
    "ALLOC_AFTER_RELINQUISH",
    "BYTES_NEVER_EXPECTED",
    "COPY_BEFORE_THE_OTHERS",
    "COPY_NOT_COMMITTED",
    "DEALLOC_WITHOUT_THE_PEER",
    "INIT_WITHOUT_FENCE",
    "ISA_RULES",
    "LOAD_NOT_WAITED",
    "MIXED_BULK_GROUPS",
    "PEER_BEFORE_CLUSTER_BARRIER",
    "REMOTE_ARRIVE_SCOPE",
    "STATIC_RULES",
    "STORE_WITHOUT_PROXY_FENCE",
    "TENSOR_MEMORY_LEAK",
    "IsaRule",
]
