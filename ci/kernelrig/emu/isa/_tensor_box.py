"""The box of a tensor copy: its map read and checked, and its bytes moved."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelrig.emu.machine.bulk_copy import Bytes, Issuer
from kernelrig.emu.machine.edited_maps import EditedMaps
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.state_spaces import GLOBAL_BASE
from kernelrig.emu.numerics.arrays import UNSIGNED, Array
from kernelrig.emu.numerics.read_modify_write import Combine
from kernelrig.emu.tensor.im2col_map import Column, Im2colMap
from kernelrig.emu.tensor.map_fields import IMAGE_ALIGNMENT, IMAGE_BYTES
from kernelrig.emu.tensor.map_image import AnyMap, decode, draft_errors
from kernelrig.emu.tensor.tensor_map import Clip, TensorMap


class Box:
    """A box of a tensor map, where it starts in global memory, and what of it is there."""

    __slots__ = ("clip", "flat", "map")

    def __init__(self, map_: AnyMap, flat: int, clip: Clip | Column) -> None:
        self.map: Any = map_
        self.flat = flat
        self.clip: Any = clip  # of that map

    @property
    def size(self) -> int:
        size: int = self.map.box_bytes
        return size

    @property
    def is_whole(self) -> bool:
        whole: bool = self.clip.whole
        return whole

    def inside(self) -> Bytes:
        """Say of each byte of the box whether it lies in the tensor."""
        box = np.zeros(self.map.box_bytes, np.uint8)
        if not self.clip.is_empty:
            whole, part = self.map.in_box(box, self.clip)
            whole[part] = 1
        return box

    def load(self, op: Op) -> Bytes:
        """Return the box, what is out of bounds filled in."""
        map_, clip, memory = self.map, self.clip, op.machine.memory.global_
        box: Bytes
        if clip.is_empty:
            box = map_.empty_box()
            return box
        _notify(op, self, write=False)
        there, place = map_.in_memory(memory.bytes, self.flat, clip)
        if clip.whole:
            return np.ascontiguousarray(there[place]).reshape(-1)
        box = map_.empty_box()
        whole, part = map_.in_box(box, clip)
        whole[part] = there[place]
        return box

    def store(self, op: Op, box: Bytes, combine: Combine | None) -> None:
        """Write what is in bounds; with `combine`, what that makes of the old elements."""
        map_, clip, memory = self.map, self.clip, op.machine.memory.global_
        if clip.is_empty:
            return
        _notify(op, self, write=True)
        there, place = map_.in_memory(memory.bytes, self.flat, clip)
        whole, part = map_.in_box(box, clip)
        old, new = there[place], whole[part]
        if combine is not None:
            dtype = UNSIGNED[map_.element_bytes]
            before = np.ascontiguousarray(old).view(dtype)
            new = combine(before, np.ascontiguousarray(new).view(dtype)).view(np.uint8)
        there[place] = new.reshape(old.shape)
        there, place = map_.in_memory(memory.written, self.flat, clip)
        there[place] = 1


def _notify(op: Op, box: Box, *, write: bool) -> None:
    hooks = op.machine.hooks
    if hooks:
        rows, size = box.map.rows(box.flat, box.clip), box.map.part_bytes(box.clip)
        hooks.op_accessed(op, "global", rows, size, write)


def box_of(
    issuer: Issuer,
    address: Array,
    coordinates: tuple[Array, ...],
    write: bool,
    offsets: tuple[Array, ...] | None = None,
) -> Box | None:
    """Read the tensor map; None where it was reported at fault. With `offsets`, of im2col."""
    at = issuer.find(address, IMAGE_BYTES, "generic", "tensor map", align=IMAGE_ALIGNMENT)
    if at is None:
        return None
    memory = issuer.machine.memory.global_
    slot = int(issuer.machine.slot_of[issuer.batch.warps[issuer.row]])
    if issuer.machine.part(EditedMaps).is_behind(at, slot):
        text = "no thread of this CTA has acquired the tensor map since it was edited"
        issuer.report("proxy-fence", text, at, "tensor-map-not-acquired")
    map_ = _decoded(issuer, memory.bytes[at : at + IMAGE_BYTES].tobytes(), at)
    if map_ is None or not _fits(issuer, map_, len(coordinates), is_im2col=offsets is not None):
        return None
    corner = tuple(issuer.value(c) for c in coordinates)
    away = tuple(issuer.value(o) for o in offsets or ())
    kind, why = map_.misfit(corner, write)
    if not kind and isinstance(map_, Im2colMap):
        kind, why = map_.offset_misfit(away)
    if kind:
        issuer.report(kind, f"the box at {_listed(corner)}: {why}", ("corner", kind))
        return Box(map_, 0, _NOTHING)
    clip: Clip | Column
    if isinstance(map_, TensorMap):
        clip = map_.clip(corner)
    else:
        clip = map_.clip(corner, away or (0,) * (map_.rank - 2))
    box = Box(map_, map_.address - GLOBAL_BASE, clip)
    if not clip.is_empty:
        first = box.flat + clip.start
        home = memory.find(first)
        beyond = first + box.map.extent(clip) - (home.start + home.size if home else first)
        if home is None or beyond > 0 or (write and home.read_only):
            name = home.name if home else f"{map_.address:#x}"
            why = f"ends {beyond} bytes past {name}" if beyond > 0 else f"lies in {name}"
            said = f"the box at {_listed(corner)}"
            text = f"{said} {why}: the map's dims and strides must lie in its buffer"
            issuer.report("out-of-bounds", text, ("box", name))
            box.clip = _NOTHING
    return box


_NOTHING = Clip((), (0,), 0, False)


def _decoded(issuer: Issuer, image: bytes, at: int) -> AnyMap | None:
    """Return the map that the bytes are; None where it was reported that they are none."""
    if errors := draft_errors(image):
        issuer.report("descriptor", f"the tensor map was edited, and is none: {errors[0]}", at)
        return None
    map_ = decode(image)
    if map_ is None:
        text = "these 128 bytes are no tensor map: pass one that cuTensorMapEncodeTiled or"
        text += " cuTensorMapEncodeIm2col made, as a __grid_constant__ parameter or in global"
        issuer.report("descriptor", f"{text} memory", at)
    return map_


def _fits(issuer: Issuer, map_: AnyMap, rank: int, *, is_im2col: bool) -> bool:
    """Whether a copy of so many coordinates may use the map; reported where not."""
    if is_im2col != isinstance(map_, Im2colMap):
        made, wanted = ("tiles", "im2col") if is_im2col else ("im2col", "tiles")
        text = f"a tensor map of {made} in a copy by {wanted}: encode one of that mode"
        issuer.report("descriptor", text, "mode")
    elif map_.rank != rank:
        text = f"a tensor map of {map_.rank} dimensions with {rank} coordinates"
        issuer.report("descriptor", text, "rank")
    elif map_.interleave != "none":
        text = f"a tensor map with interleave {map_.interleave}, which is not supported"
        issuer.report("descriptor", text, "interleave")
    else:
        return True
    return False


def _listed(corner: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, corner))})"
