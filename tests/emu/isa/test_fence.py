"""Fences: what observers are told."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel
from kernelrig.emu.machine.machine_state import Hooks, WarpBatch
from kernelrig.emu.numerics.arrays import Mask

from tests.emu.harness import run_ptx


class Told(Hooks):
    def __init__(self) -> None:
        self.events: list[tuple[str, ...]] = []

    def fenced(self, batch: WarpBatch, mask: Mask, sem: str, scope: str) -> None:
        self.events.append((sem, scope))

    def proxy_fenced(self, batch: WarpBatch, mask: Mask, space: str) -> None:
        self.events.append(("proxy", space))

    def barriers_published(self, batch: WarpBatch, mask: Mask) -> None:
        self.events.append(("published",))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("fence.cta", [("acq_rel", "cta")]),
        ("fence.sc.sys", [("sc", "sys")]),
        ("fence.acq_rel.gpu", [("acq_rel", "gpu")]),
        ("fence.acquire.cluster", [("acquire", "cluster")]),
        ("membar.gl", [("sc", "gpu")]),
        ("membar.cta", [("sc", "cta")]),
        ("fence.proxy.async", [("proxy", "")]),
        ("fence.proxy.async.shared::cta", [("proxy", "shared::cta")]),
        ("fence.proxy.async.global", [("proxy", "global")]),
        ("fence.mbarrier_init.release.cluster", [("published",)]),
        ("fence.release.sync_restrict::shared::cta.cluster", [("release", "cluster")]),
        (
            "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
            [("acquire", "cluster"), ("proxy", "shared::cluster")],
        ),
        ("fence.proxy.alias", []),
        ("fence.proxy.tensormap::generic.release.gpu", [("release", "gpu")]),
        ("griddepcontrol.wait", []),
        ("griddepcontrol.launch_dependents", []),
    ],
)
def test_an_observer_sees_the_fence(text: str, told: list[tuple[str, ...]]) -> None:
    watcher = Told()
    result = run_ptx(f"{text};", {"a": np.zeros(1)}, observers=[watcher])
    assert result.kinds == []
    assert watcher.events == told


@pytest.mark.parametrize(
    "text",
    [
        "fence.mbarrier_init.release.cta",
        "fence.acq_rel",
        "fence.acquire.sync_restrict::shared::cta.cluster",
        "membar.gpu",
    ],
)
def test_what_ptxas_rejects_is_rejected(text: str) -> None:
    with pytest.raises(UnsupportedKernel):
        run_ptx(f"{text};", {"a": np.zeros(1)})
