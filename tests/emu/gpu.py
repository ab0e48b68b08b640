"""Runs PTX on a GPU through the driver alone: the text and bytes that the emulator is given.

A fault of a launch loses the whole process's use of the GPU, so a child process has it: after an
error, or when it says nothing for too long, the next launch gets a new one.
"""

from __future__ import annotations

import ctypes
import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
from kernelrig.emu.launch.arguments import Argument as Described
from kernelrig.emu.launch.element_types import DTYPES, encoded
from kernelrig.emu.launch.file import AnyMapEntry, Im2colEntry, MapEntry
from kernelrig.emu.launch.loader import Loaded
from kernelrig.emu.tensor.swizzle import SWIZZLES
from numpy.typing import NDArray

Triple = tuple[int, int, int]

# From cuda.h.
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6  # CUjit_option
_CLUSTER = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_DYNAMIC_SHARED, _ANY_CLUSTER = 8, 14  # CUfunction_attribute
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
_MAP_DTYPES = {
    "u8": 0, "i8": 0, "e4m3": 0, "e5m2": 0, "u16": 1, "i16": 1, "u32": 2, "i32": 3, "u64": 4,
    "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9, "b4x16": 13, "b4x16_p64": 14,
    "b6x16_p32": 15,
}  # fmt: skip
_INTERLEAVES = {"none": 0, "16B": 1, "32B": 2}
_SWIZZLES = {name: number for number, name in enumerate(SWIZZLES)}
_PROMOTIONS = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
_FILLS = {"zeros": 0, "nan": 1}
_LOG_BYTES = 1 << 14


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


class GpuError(Exception):
    """What the driver said."""


@dataclass(frozen=True)
class Pointer:
    """An argument: the address of a buffer."""

    buffer: str
    offset: int = 0


Argument = Pointer | AnyMapEntry | bytes
"""A parameter of a kernel; a scalar is its bytes."""


class Gpu:
    """The first GPU, by way of a child process."""

    def __init__(self, limit_s: float = 30.0) -> None:
        self._limit_s = limit_s
        self._child: tuple[BaseProcess, Connection] | None = None
        self.arch: int = self._ask("arch")
        """90 of an H200."""
        self.name: str = self._ask("name")

    def run(
        self,
        text: str,
        entry: str,
        buffers: dict[str, NDArray[Any]],
        arguments: Sequence[Argument] | None = None,
        grid: Triple = (1, 1, 1),
        block: Triple = (32, 1, 1),
        cluster: Triple = (1, 1, 1),
        dynamic_shared_bytes: int = 0,
    ) -> dict[str, NDArray[Any]]:
        """Launch `entry` and return each buffer as it was left.

        Without `arguments` each buffer's address is passed, in order.

        Raises:
            GpuError: the text does not compile, the launch failed, or it did not end.
        """
        passed = arguments if arguments is not None else [Pointer(name) for name in buffers]
        left: dict[str, NDArray[Any]] = self._ask(
            "run", text, entry, buffers, passed, grid, block, cluster, dynamic_shared_bytes
        )
        return left

    def _ask(self, what: str, *arguments: Any) -> Any:  # noqa: ANN401 (whatever was asked for)
        process, here = self._child = self._child or self._started()
        try:
            here.send((what, arguments))
            ended = here.poll(self._limit_s)
            answer = here.recv() if ended else GpuError(f"no end within {self._limit_s:g} s")
        except (OSError, EOFError) as e:
            answer = GpuError(f"the process that has the GPU ended: {e!r}")
        if isinstance(answer, GpuError):
            self._child = None
            here.close()
            process.kill()
            process.join()
            raise answer
        return answer

    def _started(self) -> tuple[BaseProcess, Connection]:
        context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there,), daemon=True)
        process.start()
        there.close()
        return process, here


def _serve(pipe: Connection) -> None:
    """Do in the child what it is asked for, until an error."""
    try:
        card = _Card()
        while True:
            what, arguments = pipe.recv()
            pipe.send(card.run(*arguments) if what == "run" else getattr(card, what))
    except GpuError as e:
        pipe.send(e)
    except OSError as e:  # there is no driver
        pipe.send(GpuError(str(e)))
    except EOFError:  # nobody asks any more
        return


class _Card:
    """The first GPU, and its primary context: lost with the first error."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._do("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._do("cuDeviceGet", ctypes.byref(device), 0)
        self._device = device
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._do("cuCtxSetCurrent", context)

    @property
    def arch(self) -> int:
        """90 of an H200."""
        major, minor = (self._attribute(a) for a in (_MAJOR, _MINOR))
        return 10 * major + minor

    @property
    def name(self) -> str:
        text = ctypes.create_string_buffer(256)
        self._do("cuDeviceGetName", text, 256, self._device)
        return text.value.decode()

    def run(
        self,
        text: str,
        entry: str,
        buffers: dict[str, NDArray[Any]],
        passed: Sequence[Argument],
        grid: Triple,
        block: Triple,
        cluster: Triple,
        dynamic_shared_bytes: int,
    ) -> dict[str, NDArray[Any]]:
        with self._module(text) as module, self._filled(buffers) as addresses:
            function = ctypes.c_void_p()
            self._do("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
            if dynamic_shared_bytes:
                self._do("cuFuncSetAttribute", function, _DYNAMIC_SHARED, dynamic_shared_bytes)
            if cluster[0] * cluster[1] * cluster[2] > 8:
                self._do("cuFuncSetAttribute", function, _ANY_CLUSTER, 1)
            values = [self._value(a, addresses) for a in passed]
            pointers = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, values))
            config = _Config((ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block))
            config.shared = dynamic_shared_bytes
            attribute = _Attribute(_CLUSTER)
            attribute.value[0:3] = cluster
            if cluster != (1, 1, 1):
                config.attributes, config.count = ctypes.pointer(attribute), 1
            self._do("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)
            self._do("cuCtxSynchronize")
            left = {}
            for name, array in buffers.items():
                made = np.empty_like(np.ascontiguousarray(array))
                address = ctypes.c_void_p(made.ctypes.data)
                self._do("cuMemcpyDtoH_v2", address, addresses[name], ctypes.c_size_t(made.nbytes))
                left[name] = made
            return left

    @contextmanager
    def _module(self, text: str) -> Iterator[ctypes.c_void_p]:
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        image = ctypes.create_string_buffer(text.encode())
        try:
            self._do("cuModuleLoadDataEx", ctypes.byref(module), image, 2, options, values)
        except GpuError as e:
            raise GpuError(f"{e}: {log.value.decode(errors='replace')}") from e
        try:
            yield module
        finally:
            self._cuda.cuModuleUnload(module)

    @contextmanager
    def _filled(self, buffers: dict[str, NDArray[Any]]) -> Iterator[dict[str, ctypes.c_uint64]]:
        addresses: dict[str, ctypes.c_uint64] = {}
        try:
            for name, array in buffers.items():
                data = np.ascontiguousarray(array)
                address, size = ctypes.c_uint64(), ctypes.c_size_t(data.nbytes)
                self._do("cuMemAlloc_v2", ctypes.byref(address), size)
                addresses[name] = address
                self._do("cuMemcpyHtoD_v2", address, ctypes.c_void_p(data.ctypes.data), size)
            yield addresses
        finally:
            for address in addresses.values():
                self._cuda.cuMemFree_v2(address)

    def _value(self, argument: Argument, addresses: dict[str, ctypes.c_uint64]) -> Any:  # noqa: ANN401 (ctypes)
        match argument:
            case Pointer(buffer, offset):
                return ctypes.c_uint64(addresses[buffer].value + offset)
            case MapEntry() | Im2colEntry():
                return self._encoded(argument, addresses[argument.buffer])
        return ctypes.create_string_buffer(argument, len(argument))

    def _encoded(self, entry: AnyMapEntry, address: ctypes.c_uint64) -> Any:  # noqa: ANN401 (ctypes)
        """Make a tensor map; its 128 bytes must be aligned to 64."""
        room = (ctypes.c_uint8 * 192)()
        made = (ctypes.c_uint8 * 128).from_buffer(room, -ctypes.addressof(room) % 64)
        rank, own = len(entry.dims), list[Any]()
        if isinstance(entry, MapEntry):
            name = "cuTensorMapEncodeTiled"
            own = [(ctypes.c_uint32 * rank)(*entry.box)]
        else:
            corners = (entry.lower_corner, entry.upper_corner)
            name = "cuTensorMapEncodeIm2col"
            own = [(ctypes.c_int * len(corner))(*corner) for corner in corners]
            own += [ctypes.c_uint32(entry.channels_per_pixel)]
            own += [ctypes.c_uint32(entry.pixels_per_column)]
        self._do(
            name,
            made,
            _MAP_DTYPES[entry.dtype],
            ctypes.c_uint(rank),
            ctypes.c_void_p(address.value),
            (ctypes.c_uint64 * rank)(*entry.dims),
            (ctypes.c_uint64 * max(rank - 1, 1))(*entry.strides_bytes),
            *own,
            (ctypes.c_uint32 * rank)(*entry.element_strides),
            _INTERLEAVES[entry.interleave],
            _SWIZZLES[entry.swizzle],
            _PROMOTIONS[entry.l2_promotion],
            _FILLS[entry.oob_fill],
        )
        return made

    def _attribute(self, attribute: int) -> int:
        value = ctypes.c_int()
        self._do("cuDeviceGetAttribute", ctypes.byref(value), attribute, self._device)
        return value.value

    def _do(self, function: str, *arguments: Any) -> None:  # noqa: ANN401 (ctypes)
        result = getattr(self._cuda, function)(*arguments)
        if result:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorName(result, ctypes.byref(text))
            said = (text.value or str(result).encode()).decode()
            raise GpuError(f"{function}: {said}")


def run_launch(gpu: Gpu, loaded: Loaded, text: str) -> dict[str, NDArray[Any]]:
    """Do on `gpu` what the launch file says, with the same bytes; return its buffers."""
    kernel = loaded.kernel
    buffers = {
        name: kernel.memory.bytes[at.start : at.start + at.size].view(
            DTYPES[loaded.entry.buffers[name].dtype]
        )
        for name, at in kernel.buffers.items()
    }
    return gpu.run(
        text,
        kernel.program.function.name,
        buffers,
        [_argument(a, loaded) for a in loaded.entry.args],
        loaded.entry.grid,
        loaded.entry.block,
        loaded.entry.cluster,
        loaded.entry.dynamic_smem_bytes,
    )


def _argument(argument: Described, loaded: Loaded) -> Argument:
    offset = argument.get("offset_bytes", 0)
    assert isinstance(offset, int)
    ((kind, value),) = ((k, v) for k, v in argument.items() if k != "offset_bytes")
    if kind == "buffer":
        return Pointer(str(value), offset)
    if kind == "tensor_map":
        return loaded.entry.maps[str(value)]
    assert isinstance(value, int | float), "bytes that hold pointers are not run on a GPU"
    if kind[0] in "ui":  # as it is: a float64 would round the large ones
        bits = 8 * DTYPES[kind].itemsize
        return (int(value) & (1 << bits) - 1).to_bytes(bits // 8, "little")
    return encoded(np.array([float(value)]), kind).tobytes()
