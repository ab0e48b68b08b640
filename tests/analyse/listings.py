"""Source pages of ncu, made up: PIPELINE is no capture, and small enough to count by hand."""

from __future__ import annotations

BASE = 0x7F0000000000
COLUMNS = (
    *("Address", "Source", "Warp Stall Sampling (All Samples)"),
    *("Warp Stall Sampling (Not-issued Samples)", "# Samples", "Instructions Executed"),
    *("Thread Instructions Executed", "Predicated-On Thread Instructions Executed"),
    *("L1 Wavefronts Shared", "L1 Wavefronts Shared Ideal"),
    *("stall_barrier", "stall_long_sb", "stall_selected", "stall_wait"),
    "stall_wait (Not Issued)",
)
REASONS = ("barrier", "long_sb", "selected", "wait")

CTAS, TILES, PAIRS = 2, 20, 10
"""Two CTAs of 4 warps. W0 loads, W1 of the first CTA multiplies, W2 and W3 are the epilogue."""

Row = tuple[str, int, dict[str, int]]
EVERY, ONE, LEADER = 4 * CTAS * PAIRS, CTAS * PAIRS, TILES // 2


def row(text: str, executed: int, **stalls: int) -> Row:
    return text, executed, stalls


PIPELINE: tuple[Row, ...] = (
    row("      S2R R0, SR_TID.X", 8),
    row("      SHF.R.U32.HI R36, RZ, 0x5, R0", 8),
    row("      ISETP.NE.AND P0, PT, R36, 0x1, PT", 8),
    row("@P0   BRA @9", 8),
    # W1 alone, once: as many times as there are CTAs
    row("      MOV R20, 0x40", CTAS),
    row("      STS [R20], RZ", CTAS),
    row("      MOV R21, 0x40", CTAS),
    row("      STS [R21], RZ", CTAS),
    row("      NOP", CTAS),
    # 9: the loop of every warp
    row("      ISETP.NE.AND P1, PT, R36, 0x1, PT", EVERY, wait=3),
    row("@!P1  BRA @20", EVERY),
    row("      ISETP.NE.AND P0, PT, R36, RZ, PT", EVERY),
    row("@P0   BRA @28", EVERY),
    # 13: W0, one lane
    row("      ISETP.NE.AND P0, PT, R2, RZ, PT", ONE + 5),
    row("@P0   BRA @38", ONE + 5),
    row("      SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R9], R4", ONE, long_sb=1),
    row("@!P0  BRA @43", ONE, long_sb=4),
    row("      UTMALDG.2D [UR8], [UR4]", ONE, selected=1),
    row("      UTMALDG.2D [UR8], [UR6]", ONE),
    row("      BRA @38", ONE),
    # 20: W1, one lane of the first CTA
    row("@P2   BRA @38", ONE),
    row("      SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R5], R4", LEADER),
    row("@!P0  BRA @46", LEADER, long_sb=10),
    row("      UTCQMMA.2CTA gdesc[UR4], gdesc[UR6], tmem[UR8], idesc[UR9], P3", LEADER, wait=6),
    row("      UTCQMMA.2CTA gdesc[UR4], gdesc[UR6], tmem[UR8], idesc[UR9], P3", LEADER, wait=2),
    row("      UTCBAR.2CTA.MULTICAST [UR4], URZ, UR5", LEADER),
    row("      UTCBAR.2CTA.MULTICAST [UR5], URZ, UR5", LEADER),
    row("      BRA @38", LEADER),
    # 28: W2 and W3; a loop of 4 turns in it
    row("      LDTM.x32 R40, tmem[UR4]", 2 * ONE),
    row("      MOV R10, RZ", 2 * ONE),
    row("      LDG.E R30, desc[UR4][R12.64]", 8 * ONE),
    row("      IMAD.U32 R31, R30, 0x10000, RZ", 8 * ONE, long_sb=50, selected=10),
    row("      STS [R10], R31", 8 * ONE, wait=5),
    row("      VIADD R10, R10, 0x1", 8 * ONE),
    row("      ISETP.NE.AND P0, PT, R10, 0x4, PT", 8 * ONE),
    row("@P0   BRA @30", 8 * ONE),
    row("      STG.E.128 desc[UR4][R6.64], R40", 2 * ONE),
    row("      BRA @38", 2 * ONE),
    # 38: every warp again
    row("      VIADD R6, R6, 0x1", EVERY),
    row("      ISETP.GE.AND P0, PT, R6, R7, PT", EVERY),
    row("@!P0  BRA @9", EVERY),
    row("      BAR.SYNC.DEFER_BLOCKING 0x0", 8, barrier=7),
    row("      EXIT", 8),
    # 43 and 46: what tries again
    row("      SYNCS.PHASECHK.TRANS64 P0, [R9], R4", 70, long_sb=2),
    row("@!P0  BRA @43", 70),
    row("      BRA @17", 12),
    row("      SYNCS.PHASECHK.TRANS64 P0, [R5], R4", 0, long_sb=1),
    row("@!P0  BRA @46", 0),
    row("      BRA @23", 0),
)


def page(
    rows: tuple[Row, ...] = PIPELINE,
    kernel: str = "gemm(const float *, float *)",
    *,
    before: str = "",
    group: str = "",
) -> str:
    """Return rows as ncu prints them; `@N` is the address of row N, `group` stands in thousands."""
    lines = [before] if before else []
    lines += [f'"Kernel Name","{kernel}",', ",".join(f'"{c}"' for c in COLUMNS)]
    for number, (text, executed, stalls) in enumerate(rows):
        named = " ".join(
            f"{BASE + 16 * int(w[1:]):#x}" if w[:1] == "@" and w[1:].isdigit() else w
            for w in text.split(" ")
        )
        samples = sum(stalls.values())
        moved, needed = (2 * executed, executed) if "STS" in text else (0, 0)
        figures = [samples, samples // 2, samples, executed, 32 * executed, 32 * executed]
        figures += [moved, needed, *(stalls.get(r, 0) for r in REASONS), 0]
        cells = [f"{BASE + 16 * number:#x}", named]
        cells += [f"{n:,}".replace(",", group) if group else str(n) for n in figures]
        lines.append(",".join(f'"{c}"' for c in cells))
    return "\n".join(lines) + "\n"
