"""Random kernels: valid PTX, of which each thread is done after some hundred instructions.

How it works. `make(seed)` writes a kernel statement by statement: arithmetic, memory of all spaces,
branches and loops whose lanes go different ways, collectives, barriers of warp, CTA and cluster,
mbarriers, copies. What needs lanes or warps together is written only where they are: `members` is
who has come here of a warp, `uniform` that all threads of the CTA have.

Half of the programs are free of races by construction: a thread writes its own words, and reads
others' between two barriers. In the rest each barrier, wait and fence is left out now and then, and
threads write the same words. Some programs read registers that lanes, or all threads, never wrote.

As a command it writes programs out for a look: `python -m tests.emu.native.random_programs SEED`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from random import Random

import numpy as np
from kernelrig.emu.launch.bind import Buffer, Kernel, bind
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.ptx import parse_ptx

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
TID, OWN, LANE, BASE, STAGED, SCRATCH = "%r100", "%r101", "%r102", "%r103", "%r104", "%r105"
IN, OUT, LOCAL, TOTALS, COPIED = "%rd100", "%rd101", "%rd102", "%rd103", "%rd104"
LEADER = "%p100"
INPUT_BYTES, TOTAL_BYTES = 4096, 64


@dataclass(frozen=True)
class Program:
    """A kernel and its launch. `clean`: it has no fault, so that nothing may be found."""

    seed: int
    text: str
    ctas: int
    threads: int
    cluster: int
    clean: bool

    def kernel(self) -> Kernel:
        """Return it ready to run."""
        module = parse_ptx(self.text, f"random-{self.seed}.ptx")
        function = module.function("k")
        assert function is not None
        words = np.random.default_rng(self.seed).integers(0, 256, INPUT_BYTES, dtype=np.uint8)
        every = self.ctas * self.threads
        sizes = {"out": every * SLOT, "totals": TOTAL_BYTES, "copied": every * SLOT}
        buffers = {"in": Buffer(INPUT_BYTES, words)}
        buffers |= {name: Buffer(size, np.zeros(size, np.uint8)) for name, size in sizes.items()}
        geometry = Geometry((self.ctas, 1, 1), (self.threads, 1, 1), (self.cluster, 1, 1))
        made = bind(module, function, geometry, buffers)
        made.fill_params([b.address.to_bytes(8, "little") for b in made.buffers.values()])
        return made


class _Writer:
    """Writes one kernel."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.clean = self.rng.random() < 0.5
        self.warps = self.rng.choice((1, 2, 2, 3, 4))
        self.threads = 32 * self.warps
        self.cluster = self.rng.choice((1, 1, 1, 2))
        self.ctas = self.cluster * self.rng.choice((1, 1, 2))
        self.partial = not self.clean and self.rng.random() < 0.4  # reads what was never written
        self.lines: list[str] = []
        self.labels = 0
        self.members: str | None = "-1"
        self.uniform = True
        self.loops = 0
        self.phases = [0, 0, 0]  # of the mbarriers: of all threads, of bulk copies, of cp.async
        self.fault = False

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
        left_out = not self.clean and self.rng.random() < 0.25
        self.fault |= left_out
        return left_out

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

    def collide(self) -> None:
        """Threads write one word."""
        if not self.clean:
            self.fault = True
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

    # Control.
    def block(self, size: int) -> None:
        for _ in range(self.rng.randrange(1, size)):
            self.statement(size - 2)

    def apart(self, size: int) -> None:
        """Lanes go two ways, or one goes around."""
        p, other, end = self.any("p"), self.label(), self.label()
        members, uniform = self.members, self.uniform
        mask = ""
        if members is not None and self.rng.random() < 0.5:
            mask = f"%r{110 + self.labels % 40}"
            self.say(f"vote.sync.ballot.b32 {mask}, {p}, {members};")
        self.uniform = False
        self.members = mask or None
        both = self.rng.random() < 0.6
        self.say(f"@!{p} bra {other if both else end};")
        self.block(size)
        if both:
            self.members = None
            self.say(f"bra {end};", f"{other}:")
            self.block(size)
        self.say(f"{end}:")
        self.members, self.uniform = members, uniform

    def loop(self, size: int) -> None:
        """Every lane its own number of times, or all alike."""
        again, count = self.label(), f"%r{150 + self.labels % 40}"
        alike = self.rng.random() < 0.5
        if alike:
            self.say(f"mov.u32 {count}, {self.rng.randrange(1, 4)};")
        else:
            self.say(f"and.b32 {count}, {self.any('r')}, 3;")
        members, uniform = self.members, self.uniform
        if not alike:
            self.members, self.uniform = None, False
        self.loops += 1
        self.say(f"{again}:")
        self.block(size)
        self.loops -= 1
        self.say(
            f"setp.ne.u32 %p103, {count}, 0; sub.u32 {count}, {count}, 1;",
            f"@%p103 bra {again};",
        )
        self.members, self.uniform = members, uniform

    def table(self, size: int) -> None:
        ways, end = [self.label() for _ in range(3)], self.label()
        targets = self.label()
        members, uniform = self.members, self.uniform
        self.members, self.uniform = None, False
        self.say(
            f"and.b32 {SCRATCH}, {self.any('r')}, 3;",
            f"{targets}: .branchtargets {', '.join((*ways, ways[0]))};",
            f"brx.idx {SCRATCH}, {targets};",
        )
        for way in ways:
            self.say(f"{way}:")
            self.block(size)
            self.say(f"bra {end};")
        self.say(f"{end}:")
        self.members, self.uniform = members, uniform

    def statement(self, size: int) -> None:
        control = [self.apart, self.apart, self.loop, self.table] if size > 1 else []
        if control and self.rng.random() < 0.12:
            self.rng.choice(control)(size)
            return
        rare = (
            self.own_memory, self.own_memory, self.read_input, self.atomic, self.collide,
            self.collective, self.collective, self.warp_exchange, self.exchange, self.barrier,
            self.fence, self.mbarrier, self.copy, self.bulk_load, self.bulk_store,
            self.of_cluster, self.special, self.carry, self.pack,
        )  # fmt: skip
        if self.rng.random() < 0.35:
            self.rng.choice(rare)()
        else:
            self.compute()

    # The whole.
    def start(self) -> None:
        place = f"mad.lo.u32 %r106, %r107, {self.threads}, {TID};"
        self.say(
            f"mov.u32 {TID}, %tid.x; mov.u32 %r107, %ctaid.x; {place}",
            f"mov.u32 {BASE}, tile; mad.lo.u32 {OWN}, {TID}, {SLOT}, {BASE};",
            f"mov.u32 {LANE}, %laneid; mov.u32 {STAGED}, stage; mov.u64 {LOCAL}, own;",
            f"setp.eq.u32 {LEADER}, {TID}, 0;",
            f"ld.param.u64 {IN}, [in]; ld.param.u64 {OUT}, [out];",
            f"ld.param.u64 {TOTALS}, [totals]; ld.param.u64 {COPIED}, [copied];",
            f"mul.wide.u32 %rd107, %r106, {SLOT}; add.u64 {OUT}, {OUT}, %rd107;",
            f"mul.wide.u32 %rd107, %r107, {SLOT * self.threads};",
            f"add.u64 {COPIED}, {COPIED}, %rd107;",
        )
        zeros = "{0, 0, 0, 0}"
        for place, space in ((OWN, "shared"), (LOCAL, "local"), (OUT, "global")):
            self.say(f"st.{space}.v4.b32 [{place}], {zeros};")
            self.say(f"st.{space}.v4.b32 [{place}+16], {zeros};")
        self.say(
            f"@{LEADER} st.shared.u32 [counter], 0;",
            f"@{LEADER} mbarrier.init.shared.b64 [bars], {self.threads};",
            f"@{LEADER} mbarrier.init.shared.b64 [bars+8], 1;",
            f"@{LEADER} mbarrier.init.shared.b64 [bars+16], {self.threads};",
            f"@{LEADER} fence.mbarrier_init.release.cluster;",
            "bar.sync 0;",
        )
        if self.cluster > 1:
            self.say("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
        self.registers()

    def registers(self) -> None:
        """Give the registers values, of each thread its own."""
        for number in range(POOL["r"]):
            if self.partial and self.rng.random() < 0.2:
                if self.rng.random() < 0.5:
                    self.say(f"@{LEADER} mov.u32 %r{number}, {number};")
                continue
            factor = self.rng.randrange(1, 1 << 16)
            self.say(f"mad.lo.u32 %r{number}, {TID}, {factor}, {self.rng.randrange(1 << 20)};")
        for number in range(POOL["d"]):
            self.say(f"mul.wide.u32 %rd{number}, {self.any('r')}, {TID};")
        for number in range(POOL["f"]):
            self.say(f"cvt.rn.f32.s32 %f{number}, {self.any('r')};")
        for number in range(POOL["h"]):
            self.say(f"cvt.u16.u32 %h{number}, {self.any('r')};")
        for number in range(POOL["g"]):
            self.say(f"cvt.f64.f32 %fd{number}, {self.any('f')};")
        for number in range(POOL["p"]):
            bound = self.rng.randrange(1, self.threads)
            way = self.rng.choice((f"setp.lt.u32 %p{number}, {TID}, {bound};",
                                   f"setp.gt.u32 %p{number}, {LANE}, {bound % 32};"))  # fmt: skip
            self.say(way)

    def end(self) -> None:
        if self.cluster > 1:  # nobody leaves while others read its memory
            self.say("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
        if self.rng.random() < 0.2:
            self.say(f"@{self.any('p')} exit;")
            self.compute()
        self.say(f"selp.u32 %r0, %r1, %r2, {self.any('p')};")
        for at in range(0, SLOT, 16):
            four = ", ".join(self.any("r") for _ in range(4))
            self.say(f"st.global.v4.b32 [{OUT}+{at}], {{{four}}};")
        self.say(f"{self.guard()}st.global.f32 [{OUT}+4], {self.any('f')};")
        self.say(f"{self.guard()}st.global.b64 [{OUT}+8], {self.any('d')};", "ret;")

    def program(self, seed: int) -> Program:
        self.start()
        for _ in range(self.rng.randrange(8, 40)):
            self.statement(5)
        self.end()
        body = "\n".join(self.lines)
        listed = ", ".join(f".param .u64 {name}" for name in ("in", "out", "totals", "copied"))
        text = (
            ".version 9.0\n.target sm_100a\n.address_size 64\n"
            f".visible .entry k({listed}) .reqntid {self.threads}, 1, 1\n{{\n"
            ".reg .pred %p<110>; .reg .b16 %h<110>; .reg .b32 %r<200>; .reg .b64 %rd<110>;\n"
            ".reg .f32 %f<20>; .reg .f64 %fd<10>;\n"
            f".shared .align 128 .b8 tile[{SLOT * self.threads}];\n"
            f".shared .align 128 .b8 stage[{STAGE}]; .shared .align 8 .b64 bars[3];\n"
            f".shared .align 4 .u32 counter; .local .align 16 .b8 own[{SLOT}];\n{body}\n}}\n"
        )
        clean = self.clean and not self.partial
        return Program(seed, text, self.ctas, self.threads, self.cluster, clean)


def make(seed: int) -> Program:
    """Return the program of a number: always the same."""
    return _Writer(seed).program(seed)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(make(int(argument)).text)
