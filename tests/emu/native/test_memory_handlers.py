"""Memory instructions in the native core: bytes, marks, counts and registers as NumPy leaves them.

Addresses are random. What has a finding, or is not plain, is left to the Python step: the handler
says so, and has changed nothing.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass

import numpy as np
import pytest
from kernelrig.emu.machine.findings import Finding
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.mbarrier import Barriers
from kernelrig.emu.native.memory import NativeMemory
from kernelrig.emu.numerics.arrays import UNSIGNED

from tests.emu.native.lane_functions import CONTINUE, FALLBACK, apply, as_lanes, as_masks
from tests.emu.native.memory_states import Addresses, Array, State, new_state, step_of

TRIALS, MANY_TRIALS = 10, 200
LOADS = """
ld.global.u8 %h1, [%rd1]; ld.global.s16 %r1, [%rd1]; ld.global.nc.u32 %r1, [%rd1];
ld.global.v8.b32 {%r1, %r2, %r3, _, %r5, %r6, %r7, %r8}, [%rd1];
ld.global.v4.u64 {%rd2, %rd3, %rd4, %rd5}, [%rd1]; ld.shared.u32 %r1, [%rd1];
ld.shared.v2.u64 {%rd2, %rd3}, [%rd1]; ld.shared.v4.u8 {%h1, %h2, %h3, %h4}, [%rd1];
ld.shared::cluster.u64 %rd2, [%rd1]; ld.local.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
ld.u32 %r1, [%rd1]; ld.volatile.v2.u16 {%h1, %h2}, [%rd1]; ld.acquire.gpu.u64 %rd2, [%rd1];
"""
STORES = """
st.global.u8 [%rd1], %h1; st.global.v8.f32 [%rd1], {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8};
st.global.u32 [%rd1], 7; st.shared.b16 [%rd1], %h1; st.shared.v4.b32 [%rd1], {%r1, %r2, %r3, %r4};
st.shared::cluster.u64 [%rd1], %rd2; st.local.v2.u64 [%rd1], {%rd2, %rd3}; st.u16 [%rd1], %h1;
st.v2.b8 [%rd1], {%h1, %h2}; st.relaxed.sys.global.u64 [%rd1], %rd2; st.volatile.u32 [%rd1], %r1;
"""
ATOMICS = """
atom.global.and.b32 %r1, [%rd1], %r2; atom.shared.or.b64 %rd2, [%rd1], %rd3;
atom.xor.b32 %r1, [%rd1], %r2; atom.exch.b64 %rd2, [%rd1], %rd3;
atom.shared.cas.b16 %h1, [%rd1], %h2, %h3; atom.global.cas.b32 %r1, [%rd1], 0, %r3;
atom.cas.b64 %rd2, [%rd1], %rd3, %rd4; atom.global.inc.u32 %r1, [%rd1], %r2;
atom.shared.dec.u32 %r1, [%rd1], %r2; red.global.add.u32 [%rd1], %r2;
red.shared::cluster.add.s32 [%rd1], %r2; atom.add.u64 _, [%rd1], %rd3;
atom.global.add.f32 %f1, [%rd1], %f2; red.shared.add.f32 [%rd1], %f2;
atom.add.f64 %fd1, [%rd1], %fd2;
atom.global.v4.f32.add {%f1, _, %f3, %f4}, [%rd1], {%f5, %f6, %f7, %f8};
atom.min.u32 %r1, [%rd1], %r2; atom.shared.min.s32 %r1, [%rd1], %r2;
atom.global.max.u64 %rd2, [%rd1], %rd3;
red.release.cta.max.s64 [%rd1], %rd3; atom.min.s64 %rd2, [%rd1], %rd3; red.max.u32 [%rd1], 9;
"""
MATRICES = """
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%rd1];
ldmatrix.sync.aligned.m8n8.x2.trans.b16 {%r1, %r2}, [%rd1];
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%rd1];
ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 {%r1, %r2, %r3, %r4}, [%rd1];
stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%rd1], {%r1};
stmatrix.sync.aligned.m8n8.x4.shared.b16 [%rd1], {%r1, %r2, %r3, %r4};
stmatrix.sync.aligned.m8n8.x2.trans.b16 [%rd1], {%r1, %r2};
"""
FLOATS = (0x7F800001, 0xFFC12345, 0x7F800000, 0xFF800000, 0x00000001, 0x80000000, 0x807FFFFF)


DRAW = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)


def listed(texts: str) -> list[str]:
    return [f"{text};" for text in re.split(r";\s*", texts.strip().rstrip(";"))]


@dataclass
class Trial:
    """One instruction on one state: which addresses, which lanes, whether it is observed."""

    text: str
    seed: int
    state: State

    def __post_init__(self) -> None:
        self.step = step_of(self.text)
        assert self.step.native is not None, self.text
        self.rng = np.random.default_rng(self.seed)
        self.observed = self.seed % 3 > 0
        size = 16 if "matrix" in self.text else self._size()
        space = next(
            (s for s in ("global", "shared::cluster", "shared", "local") if f".{s}" in self.text),
            "generic",
        )
        self.named = Addresses(self.state, space.replace("shared::", ""), size, self.seed)
        self.good = self.seed % 2 == 0
        address = self.named.good() if self.good else self.named.spoiled()
        if "matrix" in self.text and space == "generic" and self.good:
            address = Addresses(self.state, "shared", size, self.seed).good() + 0x7E0000000000
        self.masks = np.full(8, 0xFFFFFFFF, np.uint32)
        if self.seed % 4 > 1 and "matrix" not in self.text:
            self.masks = self.rng.integers(1, 1 << 32, 8).astype(np.uint32)
        if self.seed % 8 > 5:
            self.masks[2:] = 0  # one CTA alone
        self.reads = [address, *(self._values(d) for _, d in self.step.reads[1:])]
        for number, (operand, _) in enumerate(self.step.reads):
            if hasattr(operand, "value"):
                self.reads[number] = np.full((1, 1), operand.value, self.reads[number].dtype)
        self.before = [self._values(d) for _, d in self.step.writes]

    def _size(self) -> int:
        words = self.text.split(" ")[0].split(".")
        kind = next(w for w in words if re.fullmatch(r"[busf](8|16|32|64)", w))
        count = next((int(w[1:]) for w in words if re.fullmatch(r"v\d", w)), 1)
        return int(kind[1:]) // 8 * count

    def _values(self, dtype: np.dtype[np.generic]) -> Array:
        bits = UNSIGNED[dtype.itemsize]
        made = self.rng.integers(0, 256, (8, 32 * dtype.itemsize), np.uint8).view(bits)
        if dtype.itemsize == 4:
            odd = self.rng.random((8, 32)) < 0.3
            made[odd] = self.rng.choice(np.array(FLOATS, np.uint32), int(odd.sum()))
        small = self.rng.random((8, 32)) < 0.2
        made[small] = self.rng.integers(0, 3, int(small.sum()))
        return made.view(dtype)

    def states(self) -> State:
        state = self.state.fresh(self.seed, self.observed)
        # Operands of floats meet floats.
        rng, memory = np.random.default_rng(self.seed), state.machine.memory.global_
        for one in memory.allocations[:2]:
            words = memory.bytes[one.start : one.start + one.size].view(np.uint32)
            odd = rng.random(len(words)) < 0.3
            words[odd] = rng.choice(np.array(FLOATS, np.uint32), int(odd.sum()))
            if state.use.non_coherent is not None and self.seed % 5 == 0:
                marks = state.use.non_coherent[one.start : one.start + one.size]
                marks[:] = rng.integers(0, 4, one.size)
        return state

    def numpy(self) -> tuple[State, tuple[Finding, ...], list[Array]]:
        state = self.states()
        rows = np.flatnonzero(self.masks)
        lanes = as_lanes(self.masks[rows])
        batch = WarpBatch(state.machine, 0, rows, None if lanes.all() else lanes, [])
        batch.at = 5
        reads = [r if len(r) == 1 else r[rows] for r in self.reads]
        with np.errstate(all="ignore"):
            made = self.step.run(batch, batch.lanes, *reads)
        results = []
        for value, old in zip(
            made if isinstance(made, tuple) else (made,), self.before, strict=False
        ):
            full = old.copy()
            whole = np.broadcast_to(value, lanes.shape).view(old.dtype)
            full[rows] = np.where(lanes, whole, old[rows])
            results.append(full)
        return state, state.machine.findings.all, results

    def native(self) -> tuple[State, int, list[Array]]:
        state = self.states()
        memory = NativeMemory(state.machine)
        draw = DRAW(lambda _, n: state.machine.rng.randrange(n))
        memory.table.draw = ctypes.cast(draw, ctypes.c_void_p)
        memory.start(as_masks(state.machine.alive))
        places = np.array(state.machine.part(Barriers).places, np.int64)
        memory.table.barriers, memory.table.barrier_count = places.ctypes.data, len(places)
        assert self.step.native is not None
        outcome = apply(
            self.step.native, self.step, self.reads, self.before, self.masks,
            ctypes.addressof(memory.table), 5,
        )  # fmt: skip
        memory.settle()
        return state, outcome.code, outcome.results


def differences(trial: Trial) -> tuple[int, str]:
    """Return what the handler returned, and where it differs from the step."""
    state, findings, wanted = trial.numpy()
    other, code, results = trial.native()
    if code == FALLBACK:
        state, wanted = trial.states(), trial.before
    elif findings:
        return code, f"no fallback where NumPy says: {findings[0].message}"
    traces = other.traces()
    for name, held in state.traces().items():
        if not np.array_equal(held, traces[name]):
            at = int(np.flatnonzero(held != traces[name])[0])
            return code, f"{name} differ at {at:#x}: {held[at]}, native {traces[name][at]}"
    if state.machine.counts != other.machine.counts:
        return code, f"counts {state.machine.counts}, native {other.machine.counts}"
    kept = [r is not None for r, _ in trial.step.writes]
    for number, (a, b) in enumerate(zip(wanted, results, strict=True)):
        bits = UNSIGNED[a.dtype.itemsize]
        if kept[number] and not np.array_equal(a.view(bits), b.view(bits)):
            return code, f"result {number} differs"
    if code == FALLBACK and trial.good and not findings:
        return code, "a plain case fell back"
    if state.machine.rng.getstate() != other.machine.rng.getstate():
        return code, "the random streams differ"
    return code, ""


@pytest.fixture(scope="module")
def state() -> State:
    return new_state()


FAMILIES = {"loads": LOADS, "stores": STORES, "atomics": ATOMICS, "matrices": MATRICES}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_handler_leaves_what_the_numpy_step_leaves(family: str, state: State) -> None:
    compare(family, TRIALS, state)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_a_handler_leaves_what_the_numpy_step_leaves_of_many(family: str, state: State) -> None:
    compare(family, MANY_TRIALS, state)


def compare(family: str, trials: int, state: State) -> None:
    said, codes = [], []
    for text in listed(FAMILIES[family]):
        went_on = 0
        for seed in range(trials):
            code, found = differences(Trial(text, seed, state))
            codes.append(code)
            went_on += code == CONTINUE
            said += [f"{text} {seed}: {found}"] if found else []
        said += [] if went_on else [f"{text} never went on"]
    assert said == []
    assert FALLBACK in codes
