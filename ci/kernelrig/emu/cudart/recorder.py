"""Records the launches of a program as a file of launches in sequence, with the memory they read.

Of each launch the memory that any schedule accessed is kept as it was before: allocations of up to
WHOLE_BYTES as a whole, of larger ones the pieces that were accessed. Of a later launch what differs
from what a replay has at that point: what the host wrote between them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.cudart.array_files import ArrayFiles
from kernelrig.emu.cudart.device_memory import GRID_WORKSPACE, PAGE, Kind
from kernelrig.emu.cudart.fat_binary import PtxImage
from kernelrig.emu.cudart.modules import LoadedModule
from kernelrig.emu.cudart.program_launch import SeenLaunch
from kernelrig.emu.cudart.recorded_arguments import argument_of, map_entry, maps_in
from kernelrig.emu.launch.bind import param_offsets
from kernelrig.emu.launch.file import IM2COL_SCHEMA
from kernelrig.emu.launch.sequence import SCHEMA
from kernelrig.emu.machine.state_spaces import GLOBAL_BASE, Allocation
from kernelrig.emu.tensor.im2col_map import Im2colMap
from kernelrig.emu.tensor.map_image import AnyMap
from kernelrig.errors import CiError, ConfigError
from kernelrig.files.rundir import sync, write_json
from kernelrig.ptx import Variable

FILE = "launch.json"
WHOLE_BYTES = 1 << 20
PIECE_BYTES = 1 << 16
MOST_PIECES = 1000
MOST_NAMED = 16
"""Allocations of one name that a finding may mean."""

Json = dict[str, Any]
Span = tuple[int, int]


@dataclass
class _Known:
    """An allocation that is in the file. `pieces` are those that a replay has, by number, with the
    hash of what they hold there.
    """

    made: Allocation
    read_only: bool
    first: int
    pieces: dict[int, bytes] = field(default_factory=dict)
    contents: list[Json] = field(default_factory=list)
    maps: dict[str, str] = field(default_factory=dict)
    last: int | None = None

    @property
    def piece_bytes(self) -> int:
        return self.made.size if self.made.size <= WHOLE_BYTES else PIECE_BYTES

    def span(self, first: int, end: int) -> Span:
        return first * self.piece_bytes, min(end * self.piece_bytes, self.made.size)


class Recorder:
    """A witness of a program's launches, which become the folder `out` when the block ends well."""

    def __init__(self, out: Path, source: str, schedules: int, seed: int) -> None:
        self.out = out
        self._head: Json = {"schema": SCHEMA, "source": source, "schedules": schedules}
        self._head["seed"] = seed
        self._launches: list[Json] = []
        self._modules: dict[int, tuple[str, LoadedModule]] = {}
        self._known: dict[str, _Known] = {}
        self._maps: dict[AnyMap, str] = {}
        self._seen: SeenLaunch | None = None

    def __enter__(self) -> Recorder:
        if os.path.lexists(self.out):
            raise ConfigError(f"{self.out} is there already", "pass --out with another folder")
        try:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            made = tempfile.mkdtemp(prefix=f".{self.out.name}.", suffix=".part", dir=self._parent)
        except OSError as e:
            why = f"{self.out} cannot be made: {e.strerror}"
            raise ConfigError(why, "pass --out with another folder") from e
        self._part = Path(made)
        self._files = ArrayFiles(self._part)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._part, ignore_errors=True)  # it is there only if it was not finished

    @property
    def _parent(self) -> Path:
        return self.out.absolute().parent

    @property
    def launches(self) -> int:
        return len(self._launches)

    @property
    def stored_bytes(self) -> int:
        return self._files.stored

    # What a witness is told.
    def seen(self, launch: SeenLaunch) -> None:
        self._seen = launch
        position = len(self._launches) + 1
        self._end_lives(launch, position)
        function, asked = launch.function, launch.asked
        module = self._module(function.module)
        before: dict[str, list[Json]] = {}
        for made in launch.memory.arena.allocations:
            if self._is_ours(launch, made) or not (pieces := self._accessed(launch, made)):
                continue
            name = self._name(launch, made)
            self._take(launch, name, pieces, before)
        for made in _named_by_findings(launch):
            if not self._is_ours(launch, made):
                self._name(launch, made, freed=made in launch.memory.freed)
        args = [
            argument_of(param, asked.params[at : at + size], self._pointer, self._map)
            for param, (at, size) in zip(
                function.entry.params, param_offsets(function.entry).values(), strict=True
            )
            if isinstance(param, Variable)
        ]
        said: Json = {
            "number": launch.number,
            "place": launch.place,
            "module": module,
            "entry": function.entry.name,
            "grid": asked.grid,
            "block": asked.block,
            "cluster": asked.cluster,
            "dynamic_smem_bytes": asked.dynamic_shared_bytes,
            "cooperative": asked.cooperative,
            "ctas": launch.ctas,
            "incomplete": launch.incomplete,
            "args": args,
            "before": before,
            "left": self._left(launch),
        }
        empty = {"ctas": 0, "before": {}, "dynamic_smem_bytes": 0}
        empty |= dict.fromkeys(("cooperative", "incomplete"), False)
        self._launches.append({k: v for k, v in said.items() if empty.get(k) != v})

    def applied(self, launch: SeenLaunch) -> None:
        """A replay has now what the launch wrote."""
        arena = launch.memory.arena
        for known in self._alive():
            start, size = known.made.start, known.piece_bytes
            changed = {
                piece
                for change in launch.changes
                if start <= change.start < start + known.made.size
                for piece in range(
                    (change.start - start) // size,
                    (change.start - start + len(change.bytes) - 1) // size + 1,
                )
            }
            for piece in changed & known.pieces.keys():
                low, high = known.span(piece, piece + 1)
                part = slice(start + low, start + high)
                known.pieces[piece] = _digest(arena.bytes[part], arena.written[part])

    def finish(self) -> None:
        """Make the folder appear, whole. CiError if it cannot."""
        try:
            modules = {name: self._module_file(name, m) for name, m in self._modules.values()}
            whole = {
                **self._head,
                "launches": self._launches,
                "modules": modules,
                **self._map_entries(),
                "buffers": {name: self._buffer(name, k) for name, k in self._known.items()},
            }
            write_json(self._part / FILE, whole)
            mask = os.umask(0)
            os.umask(mask)
            self._part.chmod(0o777 & ~mask)
            sync(self._part)
            self._part.rename(self.out)
        except OSError as e:
            raise CiError(f"{self.out} cannot be written: {e.strerror}") from e

    # Allocations.
    def _is_ours(self, launch: SeenLaunch, made: Allocation) -> bool:
        """Whether it is the emulator's and not the program's."""
        kind = launch.memory.kinds.get(made.start)
        return kind is Kind.PARAMETERS or made.name == GRID_WORKSPACE or not made.size

    def _alive(self) -> Iterable[_Known]:
        return [known for known in self._known.values() if known.last is None]

    def _end_lives(self, launch: SeenLaunch, position: int) -> None:
        there = {made.start: made for made in launch.memory.arena.allocations}
        for known in self._alive():
            if there.get(known.made.start) is not known.made:
                known.last = position - 1

    def _name(self, launch: SeenLaunch, made: Allocation, *, freed: bool = False) -> str:
        """Return the key of an allocation, which is in the file from now on."""
        for name, known in self._known.items():
            if known.made is made:
                return name
        name = next(n for n in _names(made.name) if n not in self._known)
        kind = launch.memory.kinds.get(made.start)
        known = _Known(made, kind is Kind.CONSTANT, len(self._launches) + 1)
        if freed:
            known.last = len(self._launches)
        self._known[name] = known
        return name

    def _pointer(self, address: int) -> tuple[str, int] | None:
        """Return the buffer that an address lies in, and where."""
        assert self._seen is not None
        made = self._seen.memory.find(address)
        if made is None or self._is_ours(self._seen, made):
            return None
        return self._name(self._seen, made), address - made.address

    def _map(self, found: AnyMap) -> str | None:
        """Return the name of a tensor map; None where it is of no buffer of the program."""
        if self._pointer(found.address) is None:
            return None
        return self._maps.setdefault(found, f"map_{len(self._maps) + 1}")

    def _map_entries(self) -> Json:
        tiles: Json = {}
        im2col: Json = {}
        for found, name in self._maps.items():
            into = im2col if isinstance(found, Im2colMap) else tiles
            into[name] = self._map_entry(found)
        more = {"schema": IM2COL_SCHEMA, "im2col_maps": im2col} if im2col else {}
        return {"tensor_maps": tiles, **more}

    def _map_entry(self, found: AnyMap) -> Json:
        place = next(
            (name, found.address - known.made.address)
            for name, known in self._known.items()
            if 0 <= found.address - known.made.address < known.made.size
        )
        return map_entry(found, *place)

    # Contents.
    def _accessed(self, launch: SeenLaunch, made: Allocation) -> list[int]:
        first = made.start // PAGE
        pages = np.flatnonzero(launch.accessed[first : -(-(made.start + made.size) // PAGE)])
        if not len(pages) or made.size <= WHOLE_BYTES:
            return [0] if len(pages) else []
        starts = np.maximum((first + pages) * PAGE - made.start, 0) // PIECE_BYTES
        ends = np.minimum((first + pages + 1) * PAGE - made.start, made.size) - 1
        found = sorted({*starts.tolist(), *(ends // PIECE_BYTES).tolist()})
        gaps = sum(b - a > 1 for a, b in pairwise(found))
        return found if gaps < MOST_PIECES else list(range(found[0], found[-1] + 1))

    def _take(
        self, launch: SeenLaunch, name: str, pieces: Sequence[int], before: dict[str, list[Json]]
    ) -> None:
        """Keep what a launch began with of an allocation, where a replay has not the same."""
        known, arena = self._known[name], launch.memory.arena
        new, changed = [], []
        for piece in pieces:
            low, high = known.span(piece, piece + 1)
            part = slice(known.made.start + low, known.made.start + high)
            digest = _digest(arena.bytes[part], arena.written[part])
            if piece not in known.pieces:
                new.append(piece)
            elif known.pieces[piece] != digest:
                changed.append(piece)
            known.pieces[piece] = digest
        for found, into in ((new, known.contents), (changed, before.setdefault(name, []))):
            for first, end in _runs(found):
                low, high = known.span(first, end)
                part = slice(known.made.start + low, known.made.start + high)
                data = arena.bytes[part]
                into += self._files.content(low, data, arena.written[part], whole=found is changed)
                if found is new:
                    known.maps |= {
                        str(low + at): label
                        for at, map_ in maps_in(data)
                        if (label := self._map(map_)) is not None
                    }
        if not before[name]:
            del before[name]

    def _left(self, launch: SeenLaunch) -> dict[str, str]:
        by_start = left_digests(launch)
        names = {known.made.start: name for name, known in self._known.items() if not known.last}
        return {names[start]: digest for start, digest in by_start.items() if start in names}

    # The file.
    def _module(self, module: LoadedModule) -> str:
        name = f"module_{len(self._modules) + 1}"
        return self._modules.setdefault(id(module), (name, module))[0]

    def _module_file(self, name: str, module: LoadedModule) -> Json:
        names = {known.made.start: key for key, known in self._known.items()}
        variables = {
            variable: names[made.start]
            for variable, made in module.variables.items()
            if made.start in names
        }
        said: Json = {**self._ptx_file(f"{name}.ptx", module.image), "variables": variables}
        if module.others:
            others = enumerate(module.others, 2)
            said["linked"] = [self._ptx_file(f"{name}_{n}.ptx", image) for n, image in others]
        return said

    def _ptx_file(self, path: str, image: PtxImage) -> Json:
        data = image.text.encode("utf-8", "surrogateescape")
        (self._part / path).write_bytes(data)
        return {"path": path, "sha256": hashlib.sha256(data).hexdigest()}

    def _lives(self, known: _Known) -> tuple[int, int] | None:
        """Return its first and last launch; None of what may as well be there throughout."""
        start, end = known.made.start, known.made.start + known.made.size
        others = (one.made for one in self._known.values() if one is not known)
        if known.last is None and all(o.start >= end or start >= o.start + o.size for o in others):
            return None
        return known.first, len(self._launches) if known.last is None else known.last

    def _buffer(self, name: str, known: _Known) -> Json:
        made, contents = known.made, known.contents
        fill: Json = {"kind": "undefined"}
        whole = len(contents) == 1 and not contents[0].get("offset_bytes")
        if whole and contents[0].get("zero_bytes") == made.size:
            fill, contents = {"kind": "zero"}, []
        elif whole and "written" not in contents[0] and made.size <= WHOLE_BYTES:
            fill, contents = {"kind": "file", **contents[0]}, []
        said: Json = {
            "address": hex(GLOBAL_BASE + made.start),
            "dtype": "u8",
            "shape": [made.size],
            "fill": fill,
            "name": "" if made.name == name else made.name,
            "read_only": known.read_only,
            "contents": contents,
            "tensor_maps": known.maps,
            "lives": self._lives(known),
        }
        return {k: v for k, v in said.items() if v or k in ("address", "dtype", "shape", "fill")}


def left_digests(launch: SeenLaunch) -> dict[int, str]:
    """Return the hash of what the first schedule wrote, by the start of each allocation."""
    found: dict[int, Any] = {}
    for change in launch.changes:
        made = launch.memory.find(GLOBAL_BASE + change.start)
        if made is None or made.name == GRID_WORKSPACE:
            continue
        digest = found.setdefault(made.start, hashlib.sha256())
        digest.update(b"%d %d " % (change.start - made.start, len(change.bytes)))
        digest.update(change.bytes.tobytes())
    return {start: digest.hexdigest() for start, digest in found.items()}


def _named_by_findings(launch: SeenLaunch) -> list[Allocation]:
    """Return what findings name: a replay says the same only where it is there, or was."""
    names = {name for finding in launch.findings for name in finding.objects}
    arena = launch.memory.arena
    every = [a for a in (*arena.allocations, *launch.memory.freed) if a.name in names]
    return every[-MOST_NAMED:]


def _names(name: str) -> Iterable[str]:
    yield name
    yield from (f"{name} #{n}" for n in count(2))


def _digest(data: NDArray[np.uint8], written: NDArray[np.uint8]) -> bytes:
    digest = hashlib.sha256(data.tobytes())
    digest.update(written.tobytes())
    return digest.digest()


def _runs(pieces: Sequence[int]) -> list[Span]:
    """Return [first, end) of each run of numbers that follow one another."""
    found: list[Span] = []
    for piece in pieces:
        if found and found[-1][1] == piece:
            found[-1] = (found[-1][0], piece + 1)
        else:
            found.append((piece, piece + 1))
    return found
