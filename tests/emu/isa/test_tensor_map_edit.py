"""tensormap.replace: maps that a kernel makes, copied by cp_fenceproxy, and then used."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emu.boxes import SHARED, START, WAIT, store_tile
from tests.emu.harness import ENGINES, Result, run_ptx

A = (np.arange(64 * 256) * 7919 >> 3).astype(np.uint8).reshape(64, 256)
_TILE = "tensormap.replace.tile"
ZEROS = "".join(f"st.shared.v4.b32 [draft+{n}], {{0, 0, 0, 0}};\n" for n in range(0, 128, 16))
FIELDS = f"""
{_TILE}.global_address.shared::cta.b1024.b64 [draft], %rd10;
{_TILE}.rank.shared::cta.b1024.b32 [draft], 1;
{_TILE}.box_dim.shared::cta.b1024.b32 [draft], 0, 128;
{_TILE}.box_dim.shared::cta.b1024.b32 [draft], 1, 32;
{_TILE}.global_dim.shared::cta.b1024.b32 [draft], 0, 256;
{_TILE}.global_dim.shared::cta.b1024.b32 [draft], 1, %r9;
{_TILE}.global_stride.shared::cta.b1024.b64 [draft], 0, 256;
{_TILE}.element_stride.shared::cta.b1024.b32 [draft], 0, 1;
{_TILE}.element_stride.shared::cta.b1024.b32 [draft], 1, 1;
{_TILE}.elemtype.shared::cta.b1024.b32 [draft], 0;
{_TILE}.interleave_layout.shared::cta.b1024.b32 [draft], 0;
{_TILE}.swizzle_mode.shared::cta.b1024.b32 [draft], 0;
{_TILE}.fill_mode.shared::cta.b1024.b32 [draft], 0;
"""
# Thread 0 fills it in, its warp copies it.
MADE = f"""
ld.param.u64 %rd10, [a]; ld.param.u64 %rd1, [map]; mov.b32 %r9, 64;
setp.ge.u32 %p8, %r0, 32;
@!%p0 bra FILLED;
{ZEROS}
{FIELDS}
FILLED:
@%p8 bra COPIED;
bar.warp.sync -1;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
    [%rd1], [draft], 128;
COPIED:
fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
bar.sync 0;
"""
LOAD = """
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4096;
@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [%r2], [%rd1, {128, 32}], [%r1];
"""


def run(body: str, engine: str = ENGINES[0]) -> Result:
    buffers = {"a": A, "map": np.zeros(128, np.uint8), "out": np.zeros((32, 128), np.uint8)}
    shared = SHARED + ".shared .align 128 .b8 draft[128];"
    return run_ptx(body, buffers, shared=shared, block=(64, 1, 1), engine=engine)


BODY = START + MADE + LOAD + WAIT + store_tile(4096)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_map_that_the_kernel_makes_is_one(engine: str) -> None:
    result = run(BODY, engine)
    assert result.findings == ()
    assert np.array_equal(result.buffers["out"], A[32:, 128:])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_map_that_was_edited_is_acquired_before_a_copy_uses_it(engine: str) -> None:
    acquire = "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;"
    (finding,) = run(BODY.replace(acquire, ""), engine).findings
    assert (finding.kind, finding.rule) == ("proxy-fence", "tensor-map-not-acquired")
    other = acquire.replace("%rd1", "%rd10")  # of another map
    assert run(BODY.replace(acquire, other), engine).findings != ()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stride_of_the_fastest_dimension_is_not_read(engine: str) -> None:
    """The driver takes no 0 there (an H100's, 580.159.04); here it is not asked."""
    stride = "element_stride.shared::cta.b1024.b32 [draft], 0, "
    result = run(BODY.replace(f"{stride}1", f"{stride}0"), engine)
    assert result.findings == ()
    assert np.array_equal(result.buffers["out"], A[32:, 128:])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_field_that_is_changed_counts_from_the_next_copy_on(engine: str) -> None:
    """Rows from 48 on are no more of the tensor: zeros."""
    result = run(BODY.replace("mov.b32 %r9, 64;", "mov.b32 %r9, 48;"), engine)
    assert result.findings == ()
    assert np.array_equal(result.buffers["out"][:16], A[32:48, 128:])
    assert not result.buffers["out"][16:].any()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (".box_dim.shared::cta.b1024.b32 [draft], 1, 32", "", "box[1] is 0"),
        ("[draft], 0, 256;\ntensormap.replace.tile.element", "[draft], 0, 40;\n"
         "tensormap.replace.tile.element", "edited, and is none: strides_bytes[0] is 40"),
        ("elemtype.shared::cta.b1024.b32 [draft], 0", "elemtype.shared::cta.b1024.b32 [draft], 11",
         "11 is not supported"),
        ("box_dim.shared::cta.b1024.b32 [draft], 1, 32", "box_dim.shared::cta.b1024.b32 [draft], 5,"
         " 32", "ordinal 5: 0 to 4 are allowed"),
        ("[%rd1], [draft], 128", "[%rd1], [draft], 128; bra COPIED", None),
        ("rank.shared::cta.b1024.b32 [draft], 1", "rank.shared::cta.b1024.b32 [draft], 0",
         "a tensor map of 1 dimensions with 2 coordinates"),
        ("[draft], %rd10", "[draft+64], %rd10", "tensor map of tensormap.replace"),
    ],
)  # fmt: skip
def test_what_a_map_may_not_be_is_said(old: str, new: str, message: str | None) -> None:
    if not new:  # the field is left out
        old = f"tensormap.replace.tile{old};"
    assert old in BODY
    result = run(BODY.replace(old, new))
    said = [f.message for f in result.findings]
    assert any(message in text for text in said) if message else not said
