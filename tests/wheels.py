"""Wheels and locks made by hand: pip is real in these tests, the index is a folder."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path


def write_wheel(folder: Path, name: str, files: Mapping[str, bytes], version: str = "1.0") -> Path:
    """Write a wheel; the same files give the same bytes."""
    info = f"{name}-{version}.dist-info"
    every = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},"
        f"{len(data)}\n"
        for path, data in every.items()
    )
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, data in {**every, f"{info}/RECORD": record.encode()}.items():
            wheel.writestr(zipfile.ZipInfo(file), data)
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_lock(folder: Path, **extras: Path | str) -> None:
    """Write a lock of one requirement for each extra, into `folder`.

    A wheel is locked as it is now; a text is a pin whose hash no file has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for extra, wheel in extras.items():
        if isinstance(wheel, Path):
            name, version = wheel.name.split("-")[:2]
            pin, digest = f"{name.replace('_', '-')}=={version}", sha256(wheel)
        else:
            pin, digest = wheel, "0" * 64
        (folder / f"{extra}.txt").write_text(f"{pin} \\\n    --hash=sha256:{digest}\n")
