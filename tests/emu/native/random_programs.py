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
from dataclasses import dataclass, replace

import numpy as np
from kernelrig.emu.launch.bind import Buffer, Kernel, bind
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.ptx import parse_ptx

from tests.emu.native.random_statements import (
    BARS,
    BASE,
    COPIED,
    IN,
    INPUT_BYTES,
    LANE,
    LEADER,
    LOCAL,
    OUT,
    OWN,
    POOL,
    SCRATCH,
    SLOT,
    STAGE,
    TID,
    TOTAL_BYTES,
    TOTALS,
)
from tests.emu.native.random_tensor_statements import OPERANDS, Boxes, TensorStatements


@dataclass(frozen=True)
class Program:
    """A kernel and its launch. `clean`: it has no fault, so that nothing may be found."""

    seed: int
    text: str
    ctas: int
    threads: int
    cluster: int
    clean: bool
    boxes: Boxes

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
        pointers = [b.address for b in made.buffers.values()]
        maps = (replace(self.boxes.load, address=pointers[0]),
                replace(self.boxes.store, address=pointers[3]))  # fmt: skip
        for tensor_map in maps:
            assert tensor_map.errors() == ()
        made.fill_params([*(p.to_bytes(8, "little") for p in pointers), *(m.image() for m in maps)])
        return made


class _Writer(TensorStatements):
    """Writes one kernel."""

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
            self.of_cluster, self.special, self.carry, self.pack, self.strong, self.wild,
            self.tensor_load, self.tensor_store, self.product, self.tensor_words,
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
            f"mov.u32 {LANE}, %laneid; mov.u64 {LOCAL}, own;",
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
            f"@{LEADER} mbarrier.init.shared.b64 [bars+24], 1;",
            f"@{LEADER} fence.mbarrier_init.release.cluster;",
            "bar.sync 0;",
        )
        if self.cluster > 1:
            self.say("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
        self.registers()
        self.start_products()

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
        self.end_products()
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
        target = "sm_90a" if self.on_hopper else "sm_100a"
        listed = ", ".join(f".param .u64 {name}" for name in ("in", "out", "totals", "copied"))
        text = (
            f".version 9.0\n.target {target}\n.address_size 64\n"
            f".visible .entry k({listed}, .param .align 64 .b8 load_map[128],"
            f" .param .align 64 .b8 store_map[128]) .reqntid {self.threads}, 1, 1\n{{\n"
            ".reg .pred %p<110>; .reg .b16 %h<110>; .reg .b32 %r<200>; .reg .b64 %rd<110>;\n"
            ".reg .f32 %f<20>; .reg .f64 %fd<10>; .reg .b32 %w<20>;\n"
            f".shared .align 1024 .b8 operands[{OPERANDS * self.has_products or 16}];\n"
            f".shared .align 1024 .b8 tile[{SLOT * self.threads}];\n"
            f".shared .align 1024 .b8 stage[{STAGE}]; .shared .align 8 .b64 bars[{BARS}];\n"
            f".shared .align 8 .u32 counter[2]; .local .align 16 .b8 own[{SLOT}];\n{body}\n}}\n"
        )
        clean = self.clean and not self.partial
        return Program(seed, text, self.ctas, self.threads, self.cluster, clean, self.boxes)


def make(seed: int) -> Program:
    """Return the program of a number: always the same."""
    return _Writer(seed).program(seed)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(make(int(argument)).text)
