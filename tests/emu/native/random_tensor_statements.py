"""The statements of random programs that copy boxes of tensors, and multiply matrices.

Only programs of four warps, all of whose threads are there, have products: by wgmma for sm_90a, by
tcgen05 for sm_100a. Operands are any bytes: subnormals, infinities and NaNs are among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from kernelrig.emu.tensor.im2col_map import Im2colMap
from kernelrig.emu.tensor.map_image import AnyMap
from kernelrig.emu.tensor.swizzle import SWIZZLES
from kernelrig.emu.tensor.tensor_map import TensorMap
from kernelrig.emu.tensor.tensor_map_rules import ELEMENT_BYTES

from tests.emu.native.random_statements import (
    INPUT_BYTES,
    LEADER,
    OWN,
    SCRATCH,
    SLOT,
    STAGE,
    TID,
    Statements,
)
from tests.emu.tensor_harness import descriptor_90, descriptor_100

WARPS = 4
COLUMNS = 64
"""Of tensor memory: products have the first half, loads and stores of threads the second."""
OPERANDS = 10240
A_BYTES = 8192
TENSOR, LANES_OF_WARP = "%r104", "%r108"
"""The address of tensor memory, and that of the warp's own lanes there."""
LOAD_MAP, STORE_MAP = "%rd108", "%rd109"
BOX_ROWS = 16
WGMMA = {
    "f32.e4m3.e4m3": 32, "f32.e5m2.e4m3": 32, "f16.e4m3.e5m2": 32, "f32.f16.f16": 16,
    "f16.f16.f16": 16, "f32.bf16.bf16": 16, "f32.tf32.tf32": 8,
}  # fmt: skip
"""The K of each form."""
MMA = {"f8f6f4": (0, 1), "f16": (0, 1), "tf32": (2,)}
"""The types of operands of each kind, as the instruction descriptor numbers them."""
OF_WGMMA = {16: 0, 32: 3, 64: 2, 128: 1}
OF_MMA = {16: 0, 32: 6, 64: 4}
SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}
"""Registers that a thread has for each repetition of a shape of tcgen05.ld and st."""


@dataclass(frozen=True)
class Boxes:
    """The tensors of a program: one over its input, and one over what it copies out."""

    load: AnyMap
    store: TensorMap


def boxes(rng: Random, threads: int, ctas: int, addresses: tuple[int, int]) -> Boxes:
    """Return maps whose boxes fit into the stage, and into a slot of each of 16 threads."""
    dtype = rng.choice(("u8", "u16", "bf16", "f16", "u32", "f32"))
    size = ELEMENT_BYTES[dtype]
    width = rng.choice((64, 128, 256))
    row = rng.choice((16, 32, 64))
    swizzle = rng.choice(
        ("none", "none", *(name for name, one in SWIZZLES.items() if one.width >= row))
    )
    dims: tuple[int, ...] = (width // size, INPUT_BYTES // width)
    strides: tuple[int, ...] = (width,)
    rows = STAGE // max(64, SWIZZLES[swizzle].width)
    box: tuple[int, ...] = (row // size, rng.randrange(1, rows + 1))
    steps: tuple[int, ...] = (1, rng.choice((1, 1, 2)))
    if rng.random() < 0.4:
        dims, strides = (dims[0], 4, dims[1] // 4), (width, 4 * width)
        box, steps = (box[0], 2, max(box[1] // 2, 1)), (*steps, 1)
    fill = "nan" if dtype in ("bf16", "f16", "f32") and rng.random() < 0.5 else "zeros"
    tiles = TensorMap(dtype, addresses[0], dims, strides, box, steps, "none", swizzle, "none", fill)
    load = column(rng, tiles, rows) if rng.random() < 0.3 else tiles
    kind = rng.choice(("u32", "u16", "u8", "u64"))
    size = ELEMENT_BYTES[kind]
    of_store = ((SLOT // size, threads * ctas), (SLOT,), (SLOT // size, BOX_ROWS), (1, 1))
    swizzle = rng.choice(("none", "32B"))
    return Boxes(load, TensorMap(kind, addresses[1], *of_store, "none", swizzle))


def column(rng: Random, of: TensorMap, rows: int) -> Im2colMap:
    """Return a map of im2col of the same tensor as lines or images, of at most so many pixels."""
    width, height = of.strides_bytes[0], INPUT_BYTES // of.strides_bytes[0]
    dims: tuple[int, ...] = (of.dims[0], 4, height // 4)
    strides: tuple[int, ...] = (width, 4 * width)
    if rng.random() < 0.6:
        dims, strides = (*dims[:2], 2, height // 8), (*strides, 8 * width)
    lower = tuple(rng.randrange(-2, 2) for _ in dims[2:])
    upper = tuple(rng.randrange(-1, 2) if low < 1 else 0 for low in lower)
    steps = (1, *(rng.choice((1, 1, 2)) for _ in dims[1:]))
    pixels = rng.randrange(1, rows + 1)
    return Im2colMap(
        of.dtype, of.address, dims, strides, lower, upper, of.box[0], pixels, steps,
        "none", of.swizzle, "none", of.oob_fill,
    )  # fmt: skip


class TensorStatements(Statements):
    """Writes the statements that need tensor maps, or a warpgroup."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.has_products = self.warps == WARPS and self.rng.random() < 0.7
        self.on_hopper = self.has_products and self.rng.random() < 0.5
        self.has_tensor_memory = self.has_products and not self.on_hopper
        self.boxes = boxes(self.rng, self.threads, self.ctas, (0, 0))

    @property
    def together(self) -> bool:
        """Whether all threads are here, once."""
        return self.uniform and self.members == "-1" and not self.loops

    # Copies of boxes.
    def tensor_load(self) -> None:
        if not self.together:
            return
        made = self.boxes.load
        inner = (
            16
            // made.element_bytes
            * self.rng.randrange(-2, made.dims[0] * made.element_bytes // 16 + 1)
        )
        outer = [self.rng.randrange(-3, dim + 1) for dim in made.dims[1:]]
        mode, offsets = "tile", ""
        if isinstance(made, Im2colMap):
            for n, (low, last) in enumerate(zip(made.lower_corner, made.last, strict=True)):
                outer[n] = self.rng.randrange(low, last + 1)
            mode = "im2col"
            offsets = f", {{{', '.join(str(self.rng.randrange(4)) for _ in made.last)}}}"
        corner = ", ".join(map(str, (inner, *outer)))
        everywhere = self.cluster > 1 and self.rng.random() < 0.5
        cast = ".multicast::cluster" if everywhere else ""
        if everywhere:
            self.meet()  # all have read what was there
        self.say(
            f"@{LEADER} mbarrier.arrive.expect_tx.shared.b64 %rd106, [bars+8], {made.box_bytes};",
            f"setp.eq.and.u32 %p104, %r109, 0, {LEADER};" if everywhere else "",
            f"@{'%p104' if everywhere else LEADER} cp.async.bulk.tensor.{made.rank}d"
            f".shared::cluster.global.{mode}.mbarrier::complete_tx::bytes{cast} [stage],"
            f" [{LOAD_MAP}, {{{corner}}}], [bars+8]{offsets}{', %h103' if everywhere else ''};",
        )
        if self.missing():
            self.phases[1] += 1
        else:
            self.wait(1)
        self.say(f"ld.shared.u32 {self.any('r')}, [stage+{4 * self.rng.randrange(4)}];")
        self.meet() if everywhere else self.sync()
        if not self.missing():
            self.say("fence.proxy.async.shared::cta;")

    def tensor_store(self) -> None:
        """The slots of 16 threads, which a box of the CTA's own rows takes, or adds."""
        if not self.together:
            return
        made = self.boxes.store
        first = BOX_ROWS * self.rng.randrange(self.threads // BOX_ROWS)
        self.say(f"st.shared.v2.u32 [{OWN}+8], {{{self.any('r')}, {self.any('r')}}};")
        if not self.missing():
            self.say("fence.proxy.async.shared::cta;")
        self.sync()
        adds = made.dtype in ("u32", "u64") and self.rng.random() < 0.4
        name = "cp.reduce.async.bulk.tensor" if adds else "cp.async.bulk.tensor"
        self.say(
            f"mad.lo.u32 {SCRATCH}, %r107, {self.threads}, {first};",
            f"@{LEADER} {name}.2d.global.shared::cta{'.add' if adds else ''}.tile.bulk_group"
            f" [{STORE_MAP}, {{0, {SCRATCH}}}], [tile+{first * SLOT}];",
            f"@{LEADER} cp.async.bulk.commit_group;",
        )
        if not self.missing():
            self.say(f"@{LEADER} cp.async.bulk.wait_group{self.rng.choice(('', '', '.read'))} 0;")
            if self.clean:
                self.say(f"@{LEADER} cp.async.bulk.wait_group 0;")
        self.sync()

    def meet(self) -> None:
        """All threads of the cluster."""
        self.say("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")

    # Products.
    def operands(self) -> None:
        """Write both operands, each thread its part."""
        self.say(f"mad.lo.u32 {SCRATCH}, {TID}, {OPERANDS // 128}, %r99;")
        for at in range(0, OPERANDS // 128, 16):
            four = ", ".join(self.any("r") for _ in range(4))
            self.say(f"st.shared.v4.b32 [{SCRATCH}+{at}], {{{four}}};")
        if not self.missing():
            self.say("fence.proxy.async.shared::cta;")

    def descriptor(self, register: str, at: int, bits: int) -> None:
        """Add the place of an operand to the other bits of its descriptor."""
        self.say(
            f"add.u32 {SCRATCH}, %r99, {at}; shr.u32 {SCRATCH}, {SCRATCH}, 4;",
            f"cvt.u64.u32 %rd105, {SCRATCH}; or.b64 {register}, %rd105, {bits:#x};",
        )

    def product(self) -> None:
        if self.has_products and self.together:
            if self.on_hopper:
                self.warpgroup_product()
            else:
                self.tensor_product()

    def warpgroup_product(self) -> None:
        form, k = self.rng.choice(tuple(WGMMA.items()))
        n = self.rng.choice((8, 16))
        count = n // 2 if form.startswith("f32") else n // 4
        d = ", ".join(f"%w{i}" for i in range(count))
        self.operands()
        self.sync()
        of_b = A_BYTES
        for register, at, rows in (("%rd98", 0, 64), ("%rd99", of_b, n)):
            span = self.rng.choice(tuple(OF_WGMMA))
            stride, leading = (128, 16 * rows) if span == 16 else (8 * span, 0)
            self.descriptor(register, at, descriptor_90(0, leading, stride, OF_WGMMA[span]))
        left = self.rng.choice(("%rd98", "%rd98", "{%w16, %w17, %w18, %w19}"))
        if left != "%rd98":
            self.say(*(f"mov.b32 %w{16 + i}, {self.any('r')};" for i in range(4)))
        if not self.missing():
            self.say("wgmma.fence.sync.aligned;")
        for _ in range(self.rng.randrange(1, 4)):
            adds = self.rng.choice(("0", "1", "1", "%p105"))
            signs = f"{self.rng.choice(('1', '-1'))}, {self.rng.choice(('1', '-1'))}"
            major = {16: ", 0" if left != "%rd98" else ", 0, 0"}.get(k, "")
            self.say(
                f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{form} {{{d}}}, {left}, %rd99, {adds},"
                f" {signs}{major};"
            )
            if self.rng.random() < 0.3:
                self.say("wgmma.commit_group.sync.aligned;")
        if self.rng.random() < 0.3:
            self.second_chain(f"m64n8k{k}.{form}", count // (n // 8), ", 0, 0" * (k == 16))
        if not self.missing():
            self.say("wgmma.commit_group.sync.aligned;")
        self.meddle(count)
        if not self.missing():
            self.say("wgmma.wait_group.sync.aligned 0;")
        self.results(count)
        self.sync()

    def second_chain(self, form: str, count: int, major: str) -> None:
        """A product onto registers of its own, which may still be in flight behind the first wait,
        and which nothing may ever read.
        """
        self.say("wgmma.commit_group.sync.aligned;")
        d = ", ".join(f"%w{8 + i}" for i in range(count))
        self.say(f"wgmma.mma_async.sync.aligned.{form} {{{d}}}, %rd98, %rd99, 0, 1, 1{major};")
        self.say("wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 1;")
        self.pass_time()
        if self.rng.random() < 0.5:
            self.say("wgmma.wait_group.sync.aligned 0;", f"xor.b32 %w0, %w0, %w{8 + count - 1};")

    def pass_time(self) -> None:
        """Instructions behind which the schedule may choose others."""
        again, count = self.label(), f"%r{150 + self.labels % 40}"
        self.say(f"mov.u32 {count}, 0;", f"{again}: membar.cta; add.u32 {count}, {count}, 1;")
        self.say(f"setp.lt.u32 %p103, {count}, {self.rng.randrange(1, 5)};", f"@%p103 bra {again};")

    def meddle(self, count: int) -> None:
        """Some lanes write, or read, results that are in flight."""
        if self.clean or self.rng.random() < 0.7:
            return
        for _ in range(self.rng.randrange(1, 4)):
            w, r, p = f"%w{self.rng.randrange(count)}", self.any("r"), self.any("p")
            end = self.label()
            ways = (
                (f"@{p} mov.b32 {w}, {r};",),
                (f"@{p} ld.shared.u32 {w}, [{OWN}];",),
                (f"@{p} bra {end};", f"mov.b32 {w}, {r};", f"{end}:"),
                (f"@{p} bra {end};", f"add.u32 {r}, {r}, 1;", f"{end}:"),
                (f"mov.b32 {w}, {r};",),
                (f"xor.b32 {r}, {r}, {w};",),
            )
            self.say(*self.rng.choice(ways))
        if self.rng.random() < 0.3:
            self.pass_time()

    def results(self, count: int) -> None:
        for _ in range(2):
            r = self.any("r")
            self.say(f"xor.b32 {r}, {r}, %w{self.rng.randrange(count)};")

    def ordered(self) -> None:
        """All threads of the CTA, and what they did in tensor memory."""
        self.say("tcgen05.fence::before_thread_sync;" * (not self.missing()))
        self.sync()
        self.say("tcgen05.fence::after_thread_sync;" * (not self.missing()))

    def tensor_product(self) -> None:
        kind, types = self.rng.choice(tuple(MMA.items()))
        m, n = self.rng.choice(((128, 16), (128, 32), (64, 8), (64, 16)))
        f32 = kind == "tf32" or self.rng.random() < 0.8
        bits = n // 8 << 17 | m // 16 << 24 | f32 << 4
        bits |= self.rng.choice(types) << 7
        bits |= (self.rng.choice(types) if kind == "f8f6f4" else bits >> 7 & 7) << 10
        self.operands()
        self.ordered()
        for register, at, rows in (("%rd98", 0, 128), ("%rd99", A_BYTES, n)):
            span = self.rng.choice(tuple(OF_MMA))
            stride, leading = (128, 16 * rows) if span == 16 else (8 * span, 0)
            self.descriptor(register, at, descriptor_100(0, leading, stride, OF_MMA[span]))
        self.say(f"mov.b32 {SCRATCH}, {bits:#x};")
        for number in range(self.rng.randrange(1, 4)):
            adds = "%p106" if number == 0 else self.rng.choice(("%p105", LEADER))
            self.say(
                f"@{LEADER} tcgen05.mma.cta_group::1.kind::{kind} [{TENSOR}], %rd98, %rd99,"
                f" {SCRATCH}, {adds};"
            )
        self.say(
            f"@{LEADER} tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
            " [bars+24];"
        )
        if self.missing():
            self.phases[3] += 1
        else:
            self.wait(3)
        self.say("tcgen05.fence::after_thread_sync;" * (not self.missing()))
        self.load_columns(0, 8)
        self.ordered()

    def load_columns(self, first: int, columns: int) -> None:
        shape, factor = self.rng.choice(tuple(SHAPES.items()))
        wide = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8}[shape]
        times = max(columns // wide, 1)
        count = times * factor
        registers = ", ".join(f"%w{i}" for i in range(count))
        own = LANES_OF_WARP
        load = f"tcgen05.ld.sync.aligned.{shape}.x{times}.b32 {{{registers}}},"
        if not self.clean and self.rng.random() < 0.1:  # of lanes that are not all warps' own
            self.say(f"{load} [{TENSOR}+{first}];")
            self.meddle(count)
            own = self.rng.choice((TENSOR, own))
        self.say(f"{load} [{own}+{first}];")
        self.meddle(count)
        if not self.missing():
            self.say("tcgen05.wait::ld.sync.aligned;")
        self.results(count)

    def tensor_words(self) -> None:
        """A warp's own lanes of tensor memory."""
        if not self.has_tensor_memory or self.members != "-1":
            return
        if self.rng.random() < 0.5:
            times = self.rng.choice((1, 2, 4))
            at = COLUMNS // 2 + self.rng.randrange(COLUMNS // 2 - times)
            registers = ", ".join(self.any("r") for _ in range(times))
            self.say(
                f"tcgen05.st.sync.aligned.32x32b.x{times}.b32 [{LANES_OF_WARP}+{at}],"
                f" {{{registers}}};"
            )
            if not self.missing():
                self.say("tcgen05.wait::st.sync.aligned;")
        else:
            self.load_columns(COLUMNS // 2 + 8 * self.rng.randrange(4), 8)

    def start_products(self) -> None:
        """Where operands and results lie; tensor memory is allocated, and all of it written."""
        self.say(
            f"mov.u64 {LOAD_MAP}, load_map; cvta.param.u64 {LOAD_MAP}, {LOAD_MAP};",
            f"mov.u64 {STORE_MAP}, store_map; cvta.param.u64 {STORE_MAP}, {STORE_MAP};",
            "mov.u32 %r109, %cluster_ctarank; mov.b16 %h103, 3;",
        )
        if not self.has_products:
            return
        self.say(
            "mov.u32 %r99, operands;", f"setp.ne.u32 %p105, %r109, {self.rng.randrange(2)};",
            "setp.ne.u32 %p106, %r99, %r99;",
            *(f"mov.b32 %w{i}, {TID};" for i in range(20)),
        )  # fmt: skip
        if not self.has_tensor_memory:
            return
        self.say(
            f"setp.ge.u32 %p104, {TID}, 32;", "@%p104 bra HAVE;",
            f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [counter+4], {COLUMNS};",
            "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
            "HAVE:", "tcgen05.fence::before_thread_sync;", "bar.sync 0;",
            "tcgen05.fence::after_thread_sync;", f"ld.shared.u32 {TENSOR}, [counter+4];",
            f"shr.u32 {LANES_OF_WARP}, {TID}, 5; shl.b32 {LANES_OF_WARP}, {LANES_OF_WARP}, 21;",
            f"add.u32 {LANES_OF_WARP}, {LANES_OF_WARP}, {TENSOR};",
        )  # fmt: skip
        sixteen = ", ".join(f"%w{i}" for i in range(16))
        for at in range(0, COLUMNS, 16):
            self.say(
                f"tcgen05.st.sync.aligned.32x32b.x16.b32 [{LANES_OF_WARP}+{at}], {{{sixteen}}};"
            )
        self.say("tcgen05.wait::st.sync.aligned;")

    def end_products(self) -> None:
        """All have done with tensor memory."""
        if not self.has_tensor_memory or self.missing():
            return
        self.ordered()
        self.say(
            f"setp.ge.u32 %p104, {TID}, 32;", "@%p104 bra FREED;",
            f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 {TENSOR}, {COLUMNS};", "FREED:",
        )  # fmt: skip
