"""Every broken megakernel is caught in the emulator, at once or in some schedule; the good is not.

C is compared with what kernelrig.reference computes from the same integers, bit for bit.
"""

from __future__ import annotations

import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import emulate, schedules_of
from kernelrig.model import Toolchain

from tests.emu.megakernels import SMALL, Megakernels
from tests.emu.native.both_engines import emulate_both
from tests.kernel.bad_kernels import HOPPER_FAULTS, MEGAKERNEL_FAULTS, read_head
from tests.long_cases import mostly_long

WAYS = (("sm_100a", "production"), ("sm_90a", "production"), ("sm_90a", "staged"))
SCHEDULES = 4
ONE_IMAGE = (1, 2)

AT_ONCE = (
    ("sm100a/all-lanes-release", "barrier-misuse"),
    ("sm100a/descriptor-version-0", "descriptor"),
    ("sm100a/k-step-of-16-bytes", "mismatch"),
    ("sm100a/missing-after-fence", "race"),
    ("sm100a/missing-barrier-before-alloc", "tmem"),
    ("sm100a/missing-dealloc", "leak"),
    ("sm100a/peer-mask-omitted", "deadlock"),
    ("sm100a/unawaited-loads", "uninitialised"),
)
"""One of each kind, which the first schedule shows."""

OFTEN = ("mismatch", "race", "tmem", "deadlock", "uninitialised")
"""Kinds that small kernels of other tests do not show as this one does."""

WARNINGS = (
    "sm100a/missing-after-fence",
    "sm100a/missing-barrier-before-alloc",
    "sm100a/unawaited-loads",
)
"""PTX forbids it, or tools do, and no hardware is known to show it."""

ALIKE_AT_ONCE = ("sm100a/missing-after-fence", "sm100a/peer-mask-omitted")


@pytest.fixture(scope="module")
def megakernels(tmp_path_factory: pytest.TempPathFactory, cuda_toolchain: Toolchain) -> Megakernels:
    return Megakernels(tmp_path_factory.mktemp("megakernels"), cuda_toolchain)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [pytest.param(*one, marks=() if one[1] in OFTEN else (pytest.mark.long,)) for one in AT_ONCE],
)
def test_a_fault_is_caught_in_the_first_schedule(
    fault: str, kind: str, megakernels: Megakernels
) -> None:
    caught = megakernels.caught(fault, ONE_IMAGE, [0], [kind])
    assert caught is not None
    assert kind in read_head(fault)["shows as"].split(", ")
    assert caught.finding.severity == ("warning" if fault in WARNINGS else "error")


@pytest.mark.parametrize(
    "way",
    [WAYS[0], *(pytest.param(way, marks=pytest.mark.long) for way in WAYS[1:])],
    ids="-".join,
)
def test_the_good_kernel_is_not_caught(way: tuple[str, str], megakernels: Megakernels) -> None:
    loaded = megakernels.good(*way, SMALL[way[0]])
    assert emulate(loaded, (Schedule(),), jobs=1).findings == ()


@pytest.mark.long
@pytest.mark.parametrize("fault", MEGAKERNEL_FAULTS + HOPPER_FAULTS)
def test_every_fault_is_caught_as_its_patch_says(fault: str, megakernels: Megakernels) -> None:
    assert megakernels.caught(fault, megakernels.sizes_of(fault), range(SCHEDULES))


@pytest.mark.parametrize("fault", mostly_long(MEGAKERNEL_FAULTS + HOPPER_FAULTS, *ALIKE_AT_ONCE))
def test_both_engines_find_the_same_in_every_fault(fault: str, megakernels: Megakernels) -> None:
    loaded = megakernels.broken(fault, megakernels.sizes_of(fault))
    emulate_both(loaded, schedules_of(Schedule(), 1 if fault in ALIKE_AT_ONCE else SCHEDULES))


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_no_schedule_catches_the_good_kernel(
    way: tuple[str, str], megakernels: Megakernels
) -> None:
    loaded = megakernels.good(*way, SMALL[way[0]])
    assert emulate(loaded, schedules_of(Schedule(), 10)).findings == ()
