"""What threads and operations do with an mbarrier, phase after phase. PTX ISA 9.7.13.15."""

from __future__ import annotations

from kernelrig.ptx.rules.row import IsaRule

_PHASES = "9.7.13.15"
MBARRIER_RULES = (
    IsaRule(
        "mbarrier-space",
        _PHASES,
        "an mbarrier is in shared memory",
        "no other space has mbarriers",
        "declare it __shared__, or take the address of shared memory",
    ),
    IsaRule(
        "mbarrier-init",
        "9.7.13.15.9",
        "an mbarrier is initialised once, by one thread",
        "a second init destroys the phase that others wait for",
        "init it once, by one thread, and inval it before its bytes are used again",
    ),
    IsaRule(
        "mbarrier-count",
        "9.7.13.15.9",
        "an mbarrier counts 1 to 2^20 - 1 arrivals",
        "other counts have no meaning",
        "init it with the number of arrivals in a phase",
    ),
    IsaRule(
        "mbarrier-arrive",
        "9.7.13.15.13",
        "in a phase exactly as many threads or operations arrive as the init says",
        "an arrival too many counts for the next phase, or is undefined",
        "let as many arrive in a phase as the init says",
    ),
    IsaRule(
        "mbarrier-unobserved",
        "9.7.13.15.13",
        "an arrival for the next phase comes after a wait that saw the phase before complete",
        "the arrival may come two phases ahead of a thread that still waits",
        "wait for each phase before arriving for the next, and let as many arrive in each as the"
        " init says",
    ),
    IsaRule(
        "mbarrier-noComplete",
        "9.7.13.15.13",
        "a .noComplete arrival does not complete the phase",
        "its completion is undefined",
        "remove .noComplete, or let another arrival complete the phase",
    ),
    IsaRule(
        "mbarrier-tx",
        "9.7.13.15.5",
        "the transaction count stays within 2^20 - 1 bytes",
        "beyond that it is undefined",
        "expect in each phase the bytes that its copies bring",
    ),
    IsaRule(
        "mbarrier-drop",
        "9.7.13.15.14",
        "no more arrivals are dropped than are expected",
        "the count would be below zero",
        "drop a thread once",
    ),
    IsaRule(
        "mbarrier-none",
        _PHASES,
        "mbarrier instructions are for initialised mbarriers",
        "the result for other contents of those bytes is undefined",
        "init it first, and let all users wait for the init",
    ),
    IsaRule(
        "mbarrier-remote",
        _PHASES,
        "only arrivals and expect_tx reach another CTA's mbarrier",
        "a wait on it is undefined",
        "wait on an mbarrier of the waiting CTA, and let the other CTA arrive there",
    ),
    IsaRule(
        "mbarrier-exited",
        "9.7.13.3",
        "no mbarrier of a CTA is used once it has exited",
        "its shared memory may be another CTA's by then",
        "wait for it, or synchronise the cluster (barrier.cluster), before the CTA exits",
    ),
    IsaRule(
        "mbarrier-plain-access",
        _PHASES,
        "only mbarrier instructions access a live mbarrier",
        "its 64 bits are opaque",
        "mbarrier.inval before its bytes are used for something else",
    ),
    IsaRule(
        "mbarrier-never-completes",
        _PHASES,
        "each phase gets the arrivals of the init and the bytes of its expect_tx",
        "a thread that waits for it waits for ever",
        "compare arrivals and bytes with the init and the expect_tx, and the parity waited for with"
        " the phase: on a fresh mbarrier parity 1 passes and parity 0 waits",
    ),
    IsaRule(
        "mbarrier-bytes",
        "9.7.13.15.5 and .6",
        "in each phase as many bytes are expected as its copies bring",
        "with too few expected a phase completes early, or the count is below zero and none does",
        "expect in each phase the bytes of all copies that count on that mbarrier",
    ),
    IsaRule(
        "barrier-never-completes",
        "9.7.13.1",
        "all threads that a barrier waits for arrive",
        "a thread that waits for it never continues",
        "look at what the missing warps wait for",
    ),
    IsaRule(
        "lanes-never-meet",
        "9.7.9.6 and 9.7.13.2",
        "all lanes that the mask of a .sync instruction names execute it, or have exited",
        "those that do wait for the others for ever",
        "let every lane that the mask names reach this instruction (a loop around it: with as many"
        " trips in each of them), or name only those that do",
    ),
)
