"""Maintenance: remotes are added, old builds and runs are pruned."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

from kernelrig import config
from kernelrig.build.ledger import forget_removed
from kernelrig.config.selection import choose_remote
from kernelrig.errors import ConfigError
from kernelrig.model import Remote
from kernelrig.remote import connect
from kernelrig.remote.ssh.host_key_pinning import resolve_remote


def add_remote(
    root: Path,
    name: str,
    target: str,
    fingerprint: str,
    *,
    arch: str,
    gpu: str,
    identity_file: str,
    replace_entry: bool,
) -> str:
    """Pin a host's key in remotes.local.yaml; return the next command.

    The key of a host that is known may be pinned anew: what was not named then stays as it was.
    """
    arch_meant = arch or "sm_100a"
    identity_file = key_path(identity_file)
    config.require_addable(Remote(name, arch_meant, host="not asked yet"))
    shown = resolve_remote(name, target, fingerprint, arch=arch_meant, identity_file=identity_file)
    remote = replace(shown, gpu=gpu)
    if not replace_entry and (known := config.known_entry(root, remote)):
        remote = replace(
            known,
            arch=arch or known.arch,
            user=shown.user or known.user,
            identity_file=identity_file or known.identity_file,
            host_key=shown.host_key,
            gpu=gpu or known.gpu,
        )
    path = config.add_remote(root, remote, replace=replace_entry)
    written = f"{path.name}: remote '{name}' written"
    return f"{written}; is it worth its price? `invoke doctor --remote {name}`"


def key_path(typed: str) -> str:
    """Return the path of a private key as the entry has it: it is read from any folder later."""
    if not typed:
        return ""
    if not Path(typed).expanduser().is_file():
        raise ConfigError(f"no file '{typed}'", "--identity-file is the private key to log in with")
    return typed if typed.startswith("~") else str(Path(typed).absolute())


def clean(root: Path, name: str, days: int) -> str:
    """Prune builds here that are older than `days`, or runs and unused blobs on the host `name`."""
    if name:
        with connect(choose_remote(config.load_remotes(root), name), root=root) as link:
            return f"freed {link.clean(days) / 1e6:.1f} MB on {name}"
    made = ("artifacts/builds", "artifacts/tunables")
    freed = sum(prune(root / folder, days) for folder in made)
    for store in (root / folder for folder in made):
        if store.is_dir():
            forget_removed(store)
    return f"freed {freed / 1e6:.1f} MB of builds; runs are results and stay (--runs)"


def prune(folder: Path, days: int) -> int:
    """Remove entries of `folder` untouched for `days`; return the bytes freed."""
    limit = time.time() - days * 86400
    freed = 0
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.stat().st_mtime < limit:
            files = [entry] if entry.is_file() else [p for p in entry.rglob("*") if p.is_file()]
            freed += sum(p.stat().st_size for p in files)
            entry.unlink() if entry.is_file() else shutil.rmtree(entry)
    return freed
