"""The statements of random programs that are no control flow: see `random_programs`.

Each writes some lines of PTX, or none where it may not stand: lanes or warps are missing that it
needs. What is the threads' own, and what is ordered, is said there too.
"""

from __future__ import annotations

from random import Random

from tests.emu.native.random_instructions import (
    COMPUTING,
    PREFIX,
    SPECIALS,
    WITHOUT_LITERALS,
    literal,
)

SLOT = 32
"""Bytes of `tile`, of local memory and of the outputs that are a thread's own."""
STAGE = 512
POOL = {"r": 16, "d": 8, "h": 6, "f": 10, "g": 4, "p": 6}
"""Registers that statements compute with, by their letter; what addresses need is beyond them."""
TID, OWN, LANE, BASE, SCRATCH = "%r100", "%r101", "%r102", "%r103", "%r105"
IN, OUT, LOCAL, TOTALS, COPIED = "%rd100", "%rd101", "%rd102", "%rd103", "%rd104"
LEADER = "%p100"
INPUT_BYTES, TOTAL_BYTES = 4096, 64
BARS = 4
"""mbarriers: of all threads, of bulk copies, of cp.async, of tcgen05."""


class Statements:
    """Writes the statements of one kernel into `lines`.

    `members` is the mask of the lanes of a warp that have come here, None where nobody knows it;
    `uniform` says that all threads of the CTA have, `loops` how many loops are around.
    """

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.clean = self.rng.random() < 0.5
        self.warps = self.rng.choice((1, 2, 2, 3, 4, 4))
        self.threads = 32 * self.warps
        self.cluster = self.rng.choice((1, 1, 1, 2))
        self.ctas = self.cluster * self.rng.choice((1, 1, 2))
        self.partial = not self.clean and self.rng.random() < 0.4  # reads what was never written
        self.lines: list[str] = []
        self.labels = 0
        self.members: str | None = "-1"
        self.uniform = True
        self.loops = 0
        self.phases = [0] * BARS  # of the mbarriers

    # Words.
    def say(self, *lines: str) -> None:
        self.lines += lines

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def any(self, letter: str) -> str:
        return f"{PREFIX[letter]}{self.rng.randrange(POOL[letter])}"

    def missing(self) -> bool:
        """Say whether to leave out what orders accesses."""
        return not self.clean and self.rng.random() < 0.25

    def guard(self) -> str:
        if self.rng.random() < 0.8:
            return ""
        return f"@{self.rng.choice(('', '!'))}{self.any('p')} "

    def sync(self) -> None:
        """All threads of the CTA, if all are here."""
        if not self.missing():
            self.say(self.rng.choice(("bar.sync 0;", f"barrier.sync 1, {self.threads};")))

    # Statements that only compute.
    def compute(self) -> None:
        opcode, letters = self.rng.choice(COMPUTING)
        result, rest = letters[0], letters[1:]
        operands = [str(self.rng.randrange(256)) if k == "i" else self.any(k) for k in rest]
        last = rest[-1]
        if (
            last in "rdf"
            and not opcode.startswith(WITHOUT_LITERALS)
            and self.rng.random() < 0.3
            and len(rest) > 1
        ):
            operands[-1] = literal(self.rng, last)
        self.say(f"{self.guard()}{opcode} {self.any(result)}, {', '.join(operands)};")

    def special(self) -> None:
        self.say(f"mov.u32 {self.any('r')}, {self.rng.choice(SPECIALS)};")

    def carry(self) -> None:
        a, b = self.any("r"), self.any("r")
        self.say(f"add.cc.u32 {a}, {a}, {b};", f"addc.u32 {self.any('r')}, {b}, {a};")

    def pack(self) -> None:
        r, s = self.rng.sample(range(POOL["r"]), 2)
        d, h = self.any("d"), self.any("h")
        self.say(
            self.rng.choice(
                (
                    f"mov.b64 {d}, {{%r{r}, %r{s}}};",
                    f"mov.b64 {{%r{r}, %r{s}}}, {d};",
                    f"mov.b32 %r{r}, {{{h}, {self.any('h')}}};",
                )
            )
        )

    # Memory of a thread's own.
    def words_of(self, place: str, space: str, offset: int = 0) -> None:
        """Write some own bytes, and read some."""
        size = self.rng.choice((1, 2, 4, 8, 16))
        at = f"[{place}+{offset + self.rng.randrange(0, SLOT // size) * size}]"
        other = f"[{place}+{offset + self.rng.randrange(0, SLOT // size) * size}]"
        guard = self.guard()
        r, s = self.rng.sample(range(POOL["r"]), 2)
        match size:
            case 1:
                wrote, read = f"st{space}.u8 {at}, %r{r};", f"ld{space}.s8 %r{s}, {other};"
            case 2:
                wrote = f"st{space}.b16 {at}, {self.any('h')};"
                read = f"ld{space}.b16 {self.any('h')}, {other};"
            case 4:
                wrote, read = f"st{space}.b32 {at}, %r{r};", f"ld{space}.u32 %r{s}, {other};"
            case 8:
                wrote = f"st{space}.b64 {at}, {self.any('d')};"
                read = f"ld{space}.v2.b32 {{%r{r}, %r{s}}}, {other};"
            case _:
                four = ", ".join(self.any("r") for _ in range(4))
                wrote = f"st{space}.v4.b32 {at}, {{{four}}};"
                read = f"ld{space}.v2.b64 {{%rd0, %rd1}}, {other};"
        self.say(guard + wrote, self.guard() + read)

    def own_memory(self) -> None:
        place, space = self.rng.choice(
            ((OWN, ".shared"), (OUT, ".global"), (LOCAL, ".local"), (OUT, ""))
        )
        self.words_of(place, space)

    def read_input(self) -> None:
        r = self.any("r")
        self.say(
            f"and.b32 {SCRATCH}, {self.any('r')}, {INPUT_BYTES - 16 & ~15};",
            f"cvt.u64.u32 %rd105, {SCRATCH}; add.u64 %rd105, %rd105, {IN};",
            self.rng.choice(
                (
                    f"ld.global.nc.u32 {r}, [%rd105+4];",
                    f"ld.global.f32 {self.any('f')}, [%rd105];",
                    f"{self.guard()}ld.global.u64 {self.any('d')}, [%rd105+8];",
                    "ld.global.nc.v4.f32 {%f0, %f1, %f2, %f3}, [%rd105];",
                )
            ),
        )

    def atomic(self) -> None:
        at = 4 * self.rng.randrange(TOTAL_BYTES // 4)
        operation = self.rng.choice(("add.u32", "xor.b32", "max.u32", "min.s32", "exch.b32"))
        where, offset = self.rng.choice(((f"[{TOTALS}+{at}]", ".global"), ("[counter]", ".shared")))
        guard = self.guard()
        if self.rng.random() < 0.5 and "exch" not in operation:
            self.say(f"{guard}red{offset}.{operation} {where}, {self.any('r')};")
        elif self.rng.random() < 0.2:
            self.say(f"atom{offset}.cas.b32 {self.any('r')}, {where}, 0, {self.any('r')};")
        else:
            self.say(f"{guard}atom{offset}.{operation} {self.any('r')}, {where}, {self.any('r')};")

    def strong(self) -> None:
        at, r = f"[{TOTALS}+{4 * self.rng.randrange(TOTAL_BYTES // 4)}]", self.any("r")
        self.say(
            self.rng.choice(
                (
                    f"ld.acquire.gpu.global.u32 {r}, {at};",
                    f"st.release.gpu.global.u32 {at}, {r};",
                    f"ld.relaxed.sys.global.u32 {r}, {at};",
                    f"atom.acq_rel.gpu.global.add.u32 {r}, {at}, {self.any('r')};",
                    f"ld.volatile.global.u32 {r}, {at};",
                )
            )
        )

    def wild(self) -> None:
        """What no kernel may do: addresses of nothing, barriers misused, lanes not together."""
        if self.clean or self.rng.random() < 0.7:
            return
        r = self.any("r")
        self.say(
            self.guard()
            + self.rng.choice(
                (
                    f"ld.global.u32 {r}, [{IN}+{INPUT_BYTES - 4 + self.rng.randrange(16)}];",
                    f"st.global.u32 [{OUT}+{self.rng.randrange(1, 4)}], {r};",
                    f"ld.shared.u32 {r}, [{self.any('r')}];",
                    f"st.shared.v2.u32 [{OWN}+{4 * self.rng.randrange(1, 400)}], {{{r}, {r}}};",
                    f"ld.u32 {r}, [{self.any('d')}];",
                    f"ld.local.u32 {r}, [{LOCAL}+{4 * self.rng.randrange(16)}];",
                    f"atom.global.add.u32 {r}, [{TOTALS}+{TOTAL_BYTES - 2}], 1;",
                    f"cp.async.ca.shared.global [{OWN}+2], [{IN}], 4;",
                    f"cp.async.cg.shared.global [{OWN}], [{IN}], 16;",
                    "mbarrier.arrive.shared.b64 %rd106, [stage];",
                    "mbarrier.arrive.shared.b64 %rd106, [bars+8];",
                    f"st.shared.u32 [bars], {r};",
                    f"activemask.b32 {r};",
                    f"shfl.sync.idx.b32 {r}, {TID}, 3, 31, 0xffff;",
                )
            )
        )

    def collide(self) -> None:
        """Threads write one word."""
        if not self.clean:
            self.say(f"{self.guard()}st.shared.u32 [tile+{4 * self.rng.randrange(8)}], {TID};")

    # Lanes and warps together.
    def collective(self) -> None:
        """An instruction of the lanes that are here."""
        if self.members is None:
            return
        r, s, p = self.any("r"), self.any("r"), self.any("p")
        by, members = self.rng.randrange(32), self.members
        choices = [
            f"shfl.sync.bfly.b32 {r}, {s}, {by}, 31, {members};",
            f"shfl.sync.idx.b32 {r}|{p}, {s}, {by}, 31, {members};",
            f"shfl.sync.up.b32 {r}, {s}, {by}, 0, {members};",
            f"shfl.sync.down.b32 {r}|{p}, {s}, {self.any('r')}, 31, {members};",
            f"vote.sync.ballot.b32 {r}, {p}, {members};",
            f"vote.sync.any.pred {p}, {self.any('p')}, {members};",
            f"vote.sync.uni.pred {p}, {self.any('p')}, {members};",
            f"match.any.sync.b32 {r}, {s}, {members};",
            f"redux.sync.add.u32 {r}, {s}, {members};",
            f"redux.sync.min.s32 {r}, {s}, {members};",
            f"elect.sync {r}|{p}, {members};",
            f"bar.warp.sync {members};",
        ]
        if self.clean and members != "-1":  # what comes from a lane elsewhere is a warning
            choices = choices[4:]
        self.say(self.rng.choice(choices))

    def warp_exchange(self) -> None:
        if self.members != "-1":
            return
        by = self.rng.randrange(1, 32)
        self.say(f"st.shared.u32 [{OWN}], {self.any('r')};")
        if not self.missing():
            self.say("bar.warp.sync -1;")
        if self.rng.random() < 0.3:
            four = ", ".join(f"%r{i}" for i in self.rng.sample(range(POOL["r"]), 4))
            self.say(f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{four}}}, [{OWN}];")
        self.say(f"xor.b32 {SCRATCH}, {OWN}, {by * SLOT};", f"ld.shared.u32 %r3, [{SCRATCH}];")
        if not self.missing():
            self.say("bar.warp.sync -1;")

    def exchange(self) -> None:
        if not self.uniform:
            return
        offset = 4 * self.rng.randrange(SLOT // 4)
        self.say(f"st.shared.u32 [{OWN}+{offset}], {self.any('r')};")
        self.sync()
        self.say(
            f"add.u32 {SCRATCH}, {TID}, {self.rng.randrange(1, self.threads)};",
            f"rem.u32 {SCRATCH}, {SCRATCH}, {self.threads};",
            f"mad.lo.u32 {SCRATCH}, {SCRATCH}, {SLOT}, {BASE};",
            f"{self.guard()}ld.shared.u32 {self.any('r')}, [{SCRATCH}+{offset}];",
        )
        self.sync()

    def barrier(self) -> None:
        if not self.uniform:
            return
        if self.warps > 1 and self.rng.random() < 0.3:
            self.say(
                f"setp.lt.u32 %p101, {TID}, 32;",
                f"@%p101 bar.arrive 2, {self.threads};",
                f"@!%p101 bar.sync 2, {self.threads};",
                "bar.sync 0;",  # or it arrives again before the others have passed
            )
            return
        r, p = self.any("r"), self.any("p")
        self.say(
            self.rng.choice(
                (
                    f"bar.red.popc.u32 {r}, 3, {p};",
                    f"bar.red.or.pred {p}, 3, {self.any('p')};",
                    "bar.sync 0;",
                    f"barrier.sync 4, {self.threads};",
                )
            )
        )

    def fence(self) -> None:
        scope = self.rng.choice(("cta", "cluster", "gpu"))
        self.say(
            self.rng.choice(
                (
                    f"fence.acq_rel.{scope};",
                    f"fence.sc.{scope};",
                    "membar.gl;",
                    "fence.proxy.async;",
                )
            )
        )

    def wait(self, which: int) -> None:
        """All threads wait for the next phase of an mbarrier."""
        again, parity = self.label(), self.phases[which] & 1
        self.phases[which] += 1
        self.say(
            f"{again}:",
            f"mbarrier.try_wait.parity.shared.b64 %p102, [bars+{8 * which}], {parity};",
            f"@!%p102 bra {again};",
        )

    def mbarrier(self) -> None:
        if not self.uniform or self.loops:
            return
        self.say(f"st.shared.u32 [{OWN}+4], {self.any('r')};")
        self.say("mbarrier.arrive.shared.b64 %rd106, [bars];")
        self.wait(0)
        self.say(
            f"xor.b32 {SCRATCH}, {TID}, 1;",
            f"mad.lo.u32 {SCRATCH}, {SCRATCH}, {SLOT}, {BASE};",
            f"ld.shared.u32 {self.any('r')}, [{SCRATCH}+4];",
        )
        self.sync()

    # Copies.
    def copy(self) -> None:
        """cp.async into the own slot."""
        size = self.rng.choice((4, 8, 16))
        kind = "cg" if size == 16 else "ca"
        given = self.rng.choice(("", "", f", {self.any('r')}"))
        self.say(
            f"and.b32 {SCRATCH}, {self.any('r')}, {INPUT_BYTES - 16 & ~15};",
            f"cvt.u64.u32 %rd105, {SCRATCH}; add.u64 %rd105, %rd105, {IN};",
        )
        if given:
            self.say(f"and.b32 {SCRATCH}, {self.any('r')}, {size - 1};")
            given = f", {SCRATCH}"
        guard = self.guard()
        self.say(f"{guard}cp.async.{kind}.shared.global [{OWN}], [%rd105], {size}{given};")
        if self.uniform and not self.loops and self.rng.random() < 0.3:
            self.say("cp.async.mbarrier.arrive.noinc.shared.b64 [bars+16];")
            self.wait(2)
        elif not self.missing():
            one = "cp.async.commit_group; cp.async.wait_group 0;"
            self.say(self.rng.choice((one, "cp.async.wait_all;")))
        self.say(f"ld.shared.u32 {self.any('r')}, [{OWN}];")

    def bulk_load(self) -> None:
        if not self.uniform or self.loops:
            return
        size, at = 16 * self.rng.randrange(1, 17), 16 * self.rng.randrange(16)
        self.say(
            f"@{LEADER} mbarrier.arrive.expect_tx.shared.b64 %rd106, [bars+8], {size};",
            f"@{LEADER} cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
            f" [stage+{at}], [{IN}+{16 * self.rng.randrange(64)}], {size}, [bars+8];",
        )
        if self.missing():
            self.phases[1] += 1
        else:
            self.wait(1)
        word = at + 4 * self.rng.randrange(size // 4)
        self.say(f"ld.shared.u32 {self.any('r')}, [stage+{word}];")
        self.sync()
        if not self.missing():
            self.say("fence.proxy.async.shared::cta;")

    def bulk_store(self) -> None:
        if not self.uniform:
            return
        self.say(f"st.shared.v2.u32 [{OWN}+8], {{{self.any('r')}, {self.any('r')}}};")
        if not self.missing():
            self.say("fence.proxy.async.shared::cta;")
        self.sync()
        self.say(
            f"@{LEADER} cp.async.bulk.global.shared::cta.bulk_group [{COPIED}], [tile],"
            f" {SLOT * self.threads};",
            f"@{LEADER} cp.async.bulk.commit_group;",
        )
        if not self.missing():
            self.say(f"@{LEADER} cp.async.bulk.wait_group 0;")
        self.sync()

    def of_cluster(self) -> None:
        if not self.uniform or self.cluster == 1:
            return
        meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        self.say(f"st.shared.u32 [{OWN}+16], {self.any('r')};", meet)
        self.say(
            f"mov.u32 {SCRATCH}, %cluster_ctarank; xor.b32 {SCRATCH}, {SCRATCH}, 1;",
            f"mapa.shared::cluster.u32 {SCRATCH}, {OWN}, {SCRATCH};",
            f"ld.shared::cluster.u32 {self.any('r')}, [{SCRATCH}+16];",
        )
        if self.clean or self.rng.random() < 0.5:
            self.say(meet)
