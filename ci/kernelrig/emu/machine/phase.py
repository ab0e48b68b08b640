"""What an mbarrier counts, phase after phase, and the rules of it. PTX ISA 9.7.13.15.

A phase completes when `pending` arrivals and the tx-count `tx` are both zero. `phase` counts the
completed ones; its lowest bit is the parity of the phase that is going on. A wait names a parity
and passes if the phase of that parity is over: on a fresh mbarrier parity 1 passes (as if the phase
before the first had completed) and parity 0 waits. That is why a ring's producer starts with parity
1 and its consumer with parity 0.
"""

from __future__ import annotations

from dataclasses import dataclass

COUNT_LIMIT = (1 << 20) - 1
PHASE_BIT = 63
PENDING_BIT = 43  # of the state word, as SASS has it: 20 bits of 2^20 - pending


class Misuse(Exception):
    """A rule of mbarriers is broken: `mbarrier-{rule}` of kernelrig.ptx.rules."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(text)
        self.rule = rule


@dataclass(eq=False, slots=True)
class Barrier:
    """An mbarrier. `offset` is its address in its CTA (from 0x400), `phase` counts completed ones.

    `observed`: a wait has seen the last phase complete; `made_by` is (warp on the machine,
    lane) of the init. `name` is the kernel's own for it, where one is known.
    """

    slot: int
    offset: int
    expected: int
    made_by: tuple[int, int] = (-1, -1)
    pending: int = 0
    tx: int = 0
    phase: int = 0
    observed: bool = True
    name: str = ""
    announced: int = 0  # bytes expected in this phase
    arrived_by: int = -1  # warp on the machine of the last arrival

    def __post_init__(self) -> None:
        if not 1 <= self.expected <= COUNT_LIMIT:
            raise Misuse("count", f"an mbarrier counts 1 to {COUNT_LIMIT}, not {self.expected}")
        self.pending = self.expected

    @property
    def key(self) -> tuple[str, int, int]:
        """What those who wait for it wait for."""
        return ("mbarrier", self.slot, self.offset)

    @property
    def state(self) -> int:
        """The word that an arrive returns: the parity, and what is pending."""
        return ((self.phase & 1) << PHASE_BIT) | ((1 << 20) - self.pending) << PENDING_BIT

    def has_completed(self, parity: int) -> bool:
        """Say whether the phase of that parity is over; of a fresh barrier, that of parity 1 is."""
        return self.phase & 1 != parity

    def arrive(self, count: int = 1, completes: bool = True) -> None:
        """Count arrivals; a misuse is one after the arrivals that could be counted."""
        wrong = None
        if count < 1:
            raise Misuse("arrive", f"an arrival counts at least 1, not {count}")
        # An arrival for phase n + 1 before any wait saw phase n: threads that still wait for n
        # would find the parity of n + 1, which is that of n - 1 (9.7.13.15.13).
        if not self.observed:
            wrong = Misuse(
                "unobserved",
                "arrival before any wait has observed that the previous phase completed; the init"
                f" expects {self.expected} in each phase",
            )
            self.observed = True
        if count > self.pending:
            wrong = Misuse(
                "arrive", f"{count} arrivals where {self.pending} of {self.expected} are pending"
            )
        if not completes and count == self.pending:
            text = f".noComplete arrival of {count} where {self.pending} are pending"
            wrong = Misuse("noComplete", text)
        self.pending -= min(count, self.pending)
        self._advance()
        if wrong:
            raise wrong

    def transact(self, count: int) -> None:
        """Expect so many bytes more; bytes that have arrived are negative."""
        if abs(self.tx + count) > COUNT_LIMIT:
            raise Misuse(
                "tx",
                f"the tx-count would be {self.tx + count}, beyond +-{COUNT_LIMIT}",
            )
        self.tx += count
        self.announced += max(count, 0)
        self._advance()

    def drop(self, count: int) -> None:
        """Expect so many arrivals fewer from the next phase on."""
        if count > self.expected:
            raise Misuse("drop", f"drop of {count} where {self.expected} arrivals are expected")
        self.expected -= count

    def _advance(self) -> None:
        # Both conditions, in either order: bytes may arrive before the last thread does.
        if not self.pending and not self.tx:
            self.phase += 1
            self.pending = self.expected
            self.observed = False
            self.announced = 0

    @property
    def progress(self) -> str:
        """Say what has arrived in this phase: `phase 1: 1 of 2 arrivals, 0 of 32768 bytes`."""
        text = f"phase {self.phase}: {self.expected - self.pending} of {self.expected} arrivals"
        return text + (f", {self.announced - self.tx} of {self.announced} bytes" if self.tx else "")

    def __str__(self) -> str:
        if self.name:
            return f"mbarrier {self.name} (shared {self.offset:#x})"
        return f"mbarrier at shared {self.offset:#x}"
