"""Launch folders: the launch as the binary describes it, and the outputs that are expected.

`--mode describe` needs no GPU and no driver. Where outputs are exact to the bit, what they must be
is filed with the launch: the emulator then names the line that wrote a wrong one.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from kernelrig import stages
from kernelrig.config.operation_sizes import case_words
from kernelrig.errors import CiError, ProtocolError
from kernelrig.files import rundir, strict_json
from kernelrig.model import Build, Builds, Kernel, Pattern
from kernelrig.proc import run_process
from kernelrig.stages import Launch
from kernelrig.terminal.log import working

LIMIT_S = 120.0
_EXPECTED = "expected.npy"


def prepare_launches(
    folder: Path, launches: Iterable[Launch], kernel: Kernel, builds: Builds
) -> dict[str, Path]:
    """Write each launch into its place in the run's `folder`; return all files by their places.

    The builds' PTX is among them: it is what will be run.

    Raises:
        CiError: a program did not describe what was asked for.
    """
    files: dict[str, Path] = {}
    for launch in launches:
        built = builds.by_variant[launch.variant]
        ptx = _ptx(built)
        files[str(rundir.build_folder(Path(), launch.variant) / ptx.name)] = ptx
        place = folder / launch.place
        place.mkdir(parents=True, exist_ok=True)
        _describe(launch, kernel, built, place)
        if kernel.is_operation:
            _expect_operation(launch, kernel, place)
        elif launch.pattern is not Pattern.RANDOM:
            large = stages.is_large(kernel, launch.case)
            with working("computing the expected outputs") if large else nullcontext():
                _expect(launch, kernel, built, place)
        files |= {str(p.relative_to(folder)): p for p in sorted(place.iterdir())}
    return files


def _ptx(built: Build) -> Path:
    name = f"{built.program}.ptx"
    if name not in built.files:
        raise CiError(f"{built.folder.name} has no {name}: there is nothing to emulate")
    return built.folder / name


def _describe(launch: Launch, kernel: Kernel, built: Build, place: Path) -> None:
    words = ["--mode", "describe", *case_words(kernel, launch.case)]
    words += ["--pattern", launch.pattern.value]
    words += ["--seed", str(launch.seed), "--out", str(place)]
    done = run_process([built.binary, *words], timeout_s=LIMIT_S)
    if done.exit_code:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise CiError(f"{built.program} --mode describe exited {done.exit_code}: {said[-1]}")


def _expect_operation(launch: Launch, kernel: Kernel, place: Path) -> None:
    """Add what each output must be, rounded to its type.

    The emulator compares with the rounded reference: it gets the rounding as tolerance too, and the
    verdict is made from the exact one, of which it knows nothing.
    """
    import numpy as np

    from kernelrig.reference.tensors import ROUNDING

    path = place / launch.file.name
    described = _read(path)
    expected = {}
    wanted = stages.wanted_at(kernel, launch.case, launch.pattern, launch.seed)
    for name, output in wanted.items():
        buffer = described.get("buffers", {}).get(name, {})
        if tuple(buffer.get("shape", ())) != output.tensor.shape:
            raise ProtocolError(f"{path.name} describes {name} as {buffer}: not what was asked for")
        np.save(place / f"expected-{name}.npy", output.rounded)
        max_abs, max_rel = output.tensor.max_abs, output.tensor.max_rel
        if max_abs or max_rel:
            relative, absolute = ROUNDING.get(output.tensor.dtype, (0.0, 0.0))
            max_abs, max_rel = max_abs + absolute, max_rel + relative
        expected[name] = {
            "path": f"expected-{name}.npy",
            "max_abs": max_abs,
            "max_rel": max_rel,
        }
    described["expect"] = expected
    rundir.write_json(path, described)


def _read(path: Path) -> dict[str, Any]:
    try:
        described: dict[str, Any] = strict_json.load(path)
        described["buffers"].items()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise ProtocolError(f"{path.name} of --mode describe cannot be read: {e}") from e
    return described


def _expect(launch: Launch, kernel: Kernel, built: Build, place: Path) -> None:
    """Add the expected C to the launch; without a shape in kernels.yaml it is judged afterwards."""
    import numpy as np

    path = place / launch.file.name
    described = _read(path)
    try:
        shape = tuple(described["buffers"][stages.OUTPUT]["shape"])
    except (KeyError, TypeError) as e:
        raise ProtocolError(f"{path.name} of --mode describe cannot be read: {e}") from e
    tolerance = kernel.accum_tol.get(built.arch)
    if kernel.shape is None or tolerance is None:
        return
    rows = launch.case.images * kernel.shape.rows_per_image
    if shape != (rows, kernel.shape.n):
        raise ProtocolError(f"{path.name} describes an output {list(shape)} for {rows} rows")
    function = kernel.variants[built.variant].function
    blocks = stages.expected_rows(
        rows, function, launch.pattern, launch.seed, tolerance, kernel.shape
    )
    with (place / _EXPECTED).open("wb") as file:
        header = {"descr": "<u2", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for _, wanted in blocks:
            wanted.bits.tofile(file)
    described["expect"] = {stages.OUTPUT: {"path": _EXPECTED}}
    rundir.write_json(path, described)
