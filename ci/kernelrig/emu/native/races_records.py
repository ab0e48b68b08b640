"""What the core's race detector found, as `observe.conflicts` reads it: stand-ins for the objects
of the Python detector, made for reports alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from kernelrig.emu.machine.findings import Wait
from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.numerics.arrays import LANES, Array
from kernelrig.emu.observe.access_records import LANE_BITS, races_full, too_many_granules
from kernelrig.emu.observe.clocks import ROWS, AsyncOperation, Cluster, Warp
from kernelrig.emu.observe.conflicts import Reported, Reports
from kernelrig.emu.observe.unacquired import Hint

CONFLICT, READ_NON_COHERENT, WROTE_NON_COHERENT, ADVICE, FULL, SWIZZLE = range(6)
WROTE_BEHIND_NON_COHERENT = 6
SPACES = ("global", "shared", "local", "tensor")


class Found(ctypes.Structure):
    """`Found` of core/observe/races.hpp."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("event", "space", "region", "shift")),
        ("write", ctypes.c_int32),
        ("at", ctypes.c_int32),
        ("bits", ctypes.c_uint32),
        ("count", ctypes.c_int32),
        ("codes", ctypes.POINTER(ctypes.c_int32)),
        ("granules", ctypes.POINTER(ctypes.c_int32)),
        ("who", ctypes.c_void_p),
        ("asynchronous", ctypes.c_int32),
        ("columns", ctypes.c_int32),
        ("number", ctypes.c_int32),
        ("alike", ctypes.POINTER(ctypes.c_int32)),
        ("hints", ctypes.POINTER(ctypes.c_int32)),
        ("relaxed_at", ctypes.c_int32),
        ("warnings", ctypes.c_int32),
        ("of_one_value", ctypes.c_int32),
        ("swizzle", ctypes.c_int32),
        ("written", ctypes.c_int32),
    )


class _Record(ctypes.Structure):
    """`Record` of core/observe/access_records.hpp."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("cluster", "column", "time", "need")),
        *((name, ctypes.c_int32) for name in ("asynchronous", "at", "cta", "level", "write")),
        ("size", ctypes.c_int32),
        ("mask", ctypes.c_uint32),
        ("asks", ctypes.c_uint32),
        ("actor", ctypes.c_void_p),
    )


class _Actor(ctypes.Structure):
    """`RacesActor` of core/observe/races_abi.cpp."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("operation", "cluster", "cluster_lanes", "column")),
        *((name, ctypes.c_int32) for name in ("cta", "number", "place_cta", "place_warp", "at")),
        ("asynchronous", ctypes.c_int32),
        ("by_lanes", ctypes.c_int32),
        ("bits", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
    )


class Records:
    """The records of a run: `entries`, `at` and `threads` of `AccessRecords`."""

    def __init__(self, core: ctypes.CDLL, races: int) -> None:
        self._core = core
        self._races = races
        self._actors: dict[int, Warp | AsyncOperation] = {}
        self._clusters: dict[int, Cluster] = {}
        self.entries = _Entries(self)
        self.at = _At(self)

    def record(self, number: int) -> _Record:
        count = ctypes.c_int64()
        first = self._core.races_records(self._races, ctypes.byref(count))
        assert 0 <= number < count.value
        return _Record.from_address(first + number * ctypes.sizeof(_Record))

    def actor(self, address: int) -> Warp | AsyncOperation:
        known = self._actors.get(address)
        if known is None:
            known = self._actors[address] = self._make(address)
        return known

    def _make(self, address: int) -> Warp | AsyncOperation:
        read = _Actor()
        self._core.races_actor(address, ctypes.byref(read))
        cluster = self._clusters.get(read.cluster)
        if cluster is None:
            cluster = self._clusters[read.cluster] = Cluster(read.cluster, read.cluster_lanes)
        place = (read.place_cta, read.place_warp)
        if read.operation < 0:
            return Warp(cluster, read.column, read.cta, read.number, place)
        return AsyncOperation(
            read.name.decode(), cluster, read.column, 0, cluster.nothing, {}, read.cta, read.at,
            place, read.bits, bool(read.asynchronous), 0, (0, 0), read.number,
            by_lanes=bool(read.by_lanes),
        )  # fmt: skip

    def threads(self, code: int) -> tuple[Warp | AsyncOperation, list[int]]:
        """Return who accessed, and which columns of the cluster they are."""
        read = self.record(code >> LANE_BITS)
        mask = read.mask or 1 << (code & (LANES - 1))
        columns = [read.column + lane for lane in range(LANES) if mask >> lane & 1]
        return self.actor(read.actor), columns

    def known(self, cluster: int, columns: int) -> Array | None:
        """Return what the access that is being reported knows of a cluster: (ROWS, columns)."""
        wide = self._core.races_known(self._races, cluster, None, 0)
        if wide < 0:
            return None
        clock = np.zeros((ROWS, max(wide, columns)), np.int32)
        self._core.races_known(self._races, cluster, clock.ctypes.data, clock.shape[1])
        return clock


@dataclass(frozen=True, slots=True)
class _Entries:
    records: Records

    def __getitem__(self, number: int) -> Any:  # noqa: ANN401 - an AccessRecord's fields
        return _Entry(self.records, number)


class _Entry:
    """An `AccessRecord`."""

    def __init__(self, records: Records, number: int) -> None:
        read = records.record(number)
        self.who = records.actor(read.actor)
        self.cluster = read.cluster
        self.column = read.column
        self.time = read.time
        self.asynchronous = read.asynchronous
        self.cta = read.cta
        self.level = read.level
        self.write = read.write
        self.mask = read.mask
        self.asks = bool(read.asks)


@dataclass(frozen=True, slots=True)
class _At:
    records: Records

    def __getitem__(self, number: int) -> int:
        return int(self.records.record(number).at)


@dataclass(frozen=True, slots=True)
class _Region:
    name: str
    shift: int
    step: int = 1


class _Access:
    """The access that is being reported, as `order_check.Access`."""

    def __init__(self, records: Records, found: Found, wait: Callable[[int], Wait | None]) -> None:
        self._records = records
        self._columns = found.columns
        self.who = records.actor(found.who)
        self.operation = self.who if isinstance(self.who, AsyncOperation) else None
        if self.operation:
            self.operation.wait = wait(found.who)
        self.asynchronous = found.asynchronous
        self.cluster = self.who.cluster
        self.space = SPACES[found.space]
        self.write = bool(found.write)
        self.at = found.at
        self.bits = found.bits

    @cached_property
    def clock(self) -> Array | None:
        return self._records.known(self.cluster.number, self._columns)

    @property
    def known(self) -> _Known:
        return _Known(self._records)


@dataclass(frozen=True, slots=True)
class _Known:
    records: Records

    def get(self, cluster: int) -> Array | None:
        return self.records.known(cluster, 0)


class NativeReports:
    """Reports what the core found to the machine."""

    def __init__(self, core: ctypes.CDLL, races: int, wait: Callable[[int], Wait | None]) -> None:
        self.records = Records(core, races)
        self._reports = Reports(cast(Any, self.records))
        self._wait = wait
        self._known: dict[tuple[int, str], Reported | None] = {}

    def started(self, machine: Machine) -> None:
        self._reports.machine = machine

    def report(self, found: Found) -> None:
        machine = self._reports.machine
        assert machine
        if found.event == FULL:
            if found.region < 0:
                raise races_full()
            buffer = machine.memory.global_.allocations[found.region]
            raise too_many_granules(buffer.name, buffer.size, found.shift)
        if found.event == CONFLICT:
            self._conflicts(machine, found)
            return
        access: Any = _Access(self.records, found, self._wait)
        codes = found.codes[: found.count]
        if found.event == ADVICE:
            self._reports.advise(access, set(codes))
            return
        region: Any = _region(machine, found)
        granules: Any = found.granules[: found.count]
        if found.event == SWIZZLE:
            self._reports.report_swizzle(
                region, access, granules[0], codes[0], found.swizzle, found.written
            )
            return
        reads = found.event == READ_NON_COHERENT
        told = self._reports.report_non_coherent(
            region, access, granules, codes[0], reads,
            itself=found.event == WROTE_BEHIND_NON_COHERENT,
        )  # fmt: skip
        found.warnings = int(not told.counts)

    def _conflicts(self, machine: Machine, found: Found) -> None:
        """Report conflicts; of those that are known by what the core says of them, only count."""
        region: Any = _region(machine, found)
        access: Any = None
        self._reports.relaxed_at = found.relaxed_at
        for index in range(found.count):
            granule = found.granules[index]
            name = self._reports.object_at(region, granule, SPACES[found.space])
            key = (found.alike[index], name)
            if key in self._known:
                known = self._known[key]
                if known is not None:
                    self._reports.report_again(known, found.number, found.bits)
            else:
                access = access or _Access(self.records, found, self._wait)
                granules: Any = [granule]
                wrong = [(found.codes[index], 0)]
                hint = Hint(found.hints[index])
                reported = self._reports.report(region, access, granules, wrong, hint)
                known = reported[0] if reported else None
                self._known[key] = known
            found.warnings += known is None or not known.counts
            found.of_one_value |= known is not None and known.of_one_value


def _region(machine: Machine, found: Found) -> _Region:
    named = f"CTA {found.region}"
    if SPACES[found.space] == "global":
        named = machine.memory.global_.allocations[found.region].name
    return _Region(named, found.shift)
