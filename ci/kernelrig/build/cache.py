"""Entries of artifacts/builds: found by content, checked byte for byte, published by one rename.

The entries are their own index: each records which headers it was made of, so that checking
whether a build is up to date reads files and starts no compiler. That an entry is what was compiled
here is known from outside it (build.ledger).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from kernelrig.build import ledger
from kernelrig.build.command import Request, shown_path
from kernelrig.build.depends import Depends, hash_inputs, is_current
from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.files import strict_json
from kernelrig.files.rundir import sha256_file, write_atomic
from kernelrig.files.serialization import from_json, to_json
from kernelrig.model import SCHEMA, Build, Toolchain
from kernelrig.terminal.log import say

BUILDS = Path("artifacts/builds")
RECORD = "build.json"
DEPENDS = "depends.json"
_ABANDONED_S = 24 * 3600.0


def request_key(request: Request, argv: Sequence[str], tools: Toolchain, root: Path) -> str:
    """Hash all that decides the result but file contents; the tools' paths do not."""
    words = list(argv)
    versions = [tools.host_compiler_version]
    if request.kernel.cuda:
        versions += [tools.version, tools.nvdisasm_version]
        # The tree's name is a hash of all pins: cccl and the runtime have versions of their own.
        versions += [tools.root.parents[1].name] if tools.origin == "wheels" else []
        homes = sorted({str(tools.root), shown_path(tools.root, root)}, key=len, reverse=True)
        for home in homes:
            words = [word.replace(home, "<cuda>") for word in words]
    return _digest([SCHEMA, request.name, request.way.program, words, versions])


def entry_key(depends: Depends, inputs: dict[str, str]) -> str:
    """Hash the request's key with the content of every input: the name of the entry."""
    return _digest([depends.request, sorted(inputs.items()), depends.shadows])


def find_entry(root: Path, request: Request, wanted: str) -> Build | None:
    """Return the build of `request` from its current inputs; a damaged one is ignored."""
    found = (root / BUILDS).glob(f"{request.name}-*/{DEPENDS}")
    for path in sorted(found, key=_mtime, reverse=True):
        folder = path.parent
        try:
            depends = from_json(Depends, path)
            if depends.request != wanted or not is_current(depends, request, root):
                continue
            inputs = hash_inputs(root, depends.project)
            if inputs is None or folder != entry_folder(root, request, entry_key(depends, inputs)):
                continue
            if not ledger.is_noted(folder, folder / RECORD):
                say(f"not using {folder.relative_to(root)}: it is not what was compiled here")
                continue
            return replace(load_build(folder), reused=True, compile_s=0.0)
        except (ConfigError, ProtocolError) as e:
            say(f"not using {folder.relative_to(root)}: {e.message}")
    return None


def last_compile_s(root: Path, request: Request) -> float:
    """Return how long the last compilation took, 0.0 if unknown."""
    for path in sorted((root / BUILDS).glob(f"{request.name}-*/{RECORD}"), key=_mtime)[-1:]:
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            return float(strict_json.load(path)["compile_s"])
    return 0.0


def load_build(folder: Path) -> Build:
    """Return the build in `folder`, with every file in it checked against its hash.

    ConfigError for a damaged one, and for an entry of a store that was changed with its hashes.
    """
    if not (folder / RECORD).is_file():
        raise ConfigError(
            f"no build in {folder}: it has no {RECORD}", f"see `ls {BUILDS}`, or `invoke build`"
        )
    build = replace(from_json(Build, folder / RECORD), folder=folder)
    if ledger.contradicts(folder, folder / RECORD):
        raise ConfigError(
            f"{folder} is not what was compiled here",
            "build it again; one from elsewhere goes into a folder of its own",
        )
    for name, digest in build.files.items():
        if "/" in name:
            raise ProtocolError(
                f"{folder / RECORD} names '{name}', which is not a file name in this folder"
            )
        try:
            same = sha256_file(folder / name) == digest
        except FileNotFoundError as e:
            raise _damaged(folder, f"{name} is missing") from e
        except OSError as e:
            raise _damaged(folder, f"{name} cannot be read: {(e.strerror or '').lower()}") from e
        if not same:
            raise _damaged(folder, f"{name} is not what was built")
    if build.program not in build.files:
        raise _damaged(folder, f"{RECORD} lists no program")
    if not os.access(build.binary, os.X_OK):
        # Artifact stores of CI systems lose the executable bit.
        build.binary.chmod(0o755)
    return build


def open_part(root: Path) -> Path:
    """Make an empty folder to build in, next to the entries so that a rename publishes it."""
    builds = root / BUILDS
    builds.mkdir(parents=True, exist_ok=True)
    for old in builds.glob(".part-*"):
        if time.time() - _mtime(old) > _ABANDONED_S:
            shutil.rmtree(old, ignore_errors=True)
    part = builds / f".part-{os.urandom(6).hex()}"
    part.mkdir()
    return part


def publish(root: Path, part: Path, build: Build, depends: Depends) -> Build:
    """Make an entry of a finished folder: add the records, fsync all, rename once."""
    write_atomic(part / DEPENDS, to_json(depends))
    files = {path.name: sha256_file(path) for path in sorted(part.iterdir()) if path.is_file()}
    final = replace(build, files=files)
    write_atomic(part / RECORD, to_json(replace(final, folder=final.folder.relative_to(root))))
    for name in files:
        _sync(part / name)
    _sync(part)
    with ledger.locked(final.folder.parent):
        # Another process may have built the same meanwhile.
        if ledger.is_noted(final.folder, final.folder / RECORD):
            with contextlib.suppress(ConfigError, ProtocolError):
                return load_build(final.folder)
        shutil.rmtree(final.folder, ignore_errors=True)
        ledger.note(final.folder, part / RECORD)
        try:
            part.rename(final.folder)
        except OSError as e:
            raise ConfigError(
                f"cannot write {final.folder}", "is another program holding it?"
            ) from e
    _sync(final.folder.parent)
    return final


def entry_folder(root: Path, request: Request, key: str) -> Path:
    return root / BUILDS / f"{request.name}-{key[:12]}"


def _damaged(folder: Path, what: str) -> ConfigError:
    return ConfigError(f"{folder} is damaged: {what}", "build it again, or fetch it again")


def _digest(value: Iterable[object]) -> str:
    return hashlib.sha256(json.dumps(list(value)).encode()).hexdigest()


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
