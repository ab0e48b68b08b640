"""Names and options that playbooks use and the tools do not have, each with what to use instead.

Difflib finds what was mistyped. These were never names, or were those of nvprof and older releases.
"""

from __future__ import annotations

from collections.abc import Mapping

_STALLS = (
    "use smsp__average_warps_issue_stalled_*_per_issue_active.ratio or smsp__warps_issue_stalled_*"
)
_PREDICATED = (
    "use smsp__thread_inst_executed_pred_on.sum, of which all lanes would be"
    " 32 * smsp__inst_executed.sum"
)

METRICS: Mapping[str, str] = {
    "sm__pipe_tensor_op_tcgen05_stalled_reason": _STALLS,
    "smsp__sass_warp_efficiency": _PREDICATED,
    "smsp__inst_executed_not_predicated_off": (
        "use smsp__inst_executed.sum, or of one kind"
        " smsp__inst_executed_op_global_st_pred_on_any.sum and _pred_off_all.sum"
    ),
    "smsp__thread_inst_executed_not_predicated_off": (
        "use smsp__thread_inst_executed_pred_on.sum (and _pred_off)"
    ),
    "l1tex__m_xbar2l1tex_write_bytes": (
        "use l1tex__m_l1tex2xbar_write_bytes.sum: writes leave l1tex toward the crossbar"
    ),
    "achieved_occupancy": "use sm__warps_active.avg.pct_of_peak_sustained_active",
    "branch_efficiency": "use smsp__sass_average_branch_targets_threads_uniform.pct",
    "dram_utilization": "use dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "eligible_warps_per_cycle": "use smsp__warps_eligible.sum.per_cycle_active",
    "gld_efficiency": "use smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
    "gst_efficiency": "use smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct",
    "inst_executed_global_loads": "use smsp__inst_executed_op_global_ld.sum",
    "ipc": "use smsp__inst_executed.avg.per_cycle_active",
    "shared_efficiency": "use smsp__sass_average_data_bytes_per_wavefront_mem_shared.pct",
    "sm_efficiency": "use smsp__cycles_active.avg.pct_of_peak_sustained_elapsed",
    "warp_execution_efficiency": "use smsp__average_thread_inst_executed_per_inst_executed.ratio",
}
"""By the base name that was written."""

_SOURCE = (
    "use --section SourceCounters --section WarpStateStats --import-source yes, then"
    " `ncu --import FILE --page source --csv` or `invoke analyze-source`"
)

OPTIONS: Mapping[tuple[str, str, str], str] = {
    ("ncu", "--set", "source"): _SOURCE,
    ("ncu", "--source-level", ""): _SOURCE,
    ("ncu", "--kernel-regex", ""): "use --kernel-name regex:EXPRESSION",
    ("ncu", "--kernel-regex-base", ""): "use --kernel-name-base",
    ("cuobjdump", "--dump-cubin", ""): "use cuobjdump -xelf all FILE",
    ("nvdisasm", "-playout", ""): (
        "use nvdisasm -poff for offsets in the control-flow graph, -plr or -lrm for live registers"
    ),
}
"""By tool, option and value; an empty value stands for any."""
