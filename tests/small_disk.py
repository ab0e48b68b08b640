"""A disk of a test's own, mounted over a folder: it can be full, or become so."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from kernelrig.proc import run_process

ATTEMPTS = 20


class SmallDisk:
    """A tmpfs over `folder` once it is mounted; mounted again, it changes its size."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mounted = False
        self._sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        if self._sudo and shutil.which("sudo") is None:
            pytest.fail("a disk that can be full is mounted: run as root, or install sudo")

    def mount(self, options: str) -> None:
        """Mount it, or mount it again, with options such as `size=16m`."""
        said = self._mount(options)
        if said:
            pytest.fail(f"no disk could be mounted: {said}", pytrace=False)

    def leave_free(self, *, size: int | None = None, inodes: int | None = None) -> None:
        """Let so many bytes, or files, be free, and no more."""
        # What is written meanwhile makes the limit less than what is in use, which mount refuses.
        for _ in range(ATTEMPTS):
            disk = os.statvfs(self.folder)
            options = []
            if size is not None:
                # 0 is no limit to tmpfs, and a page is the least that it counts.
                pages = disk.f_blocks - disk.f_bfree + size // disk.f_frsize
                options.append(f"size={max(pages, 1) * disk.f_frsize}")
            if inodes is not None:
                options.append(f"nr_inodes={disk.f_files - disk.f_ffree + inodes}")
            said = self._mount(",".join(options))
            if not said:
                return
        pytest.fail(f"the disk's limit could not be set: {said}", pytrace=False)

    def _mount(self, options: str) -> str:
        """Return what the command said; empty if the disk is mounted so."""
        again = "remount," if self.mounted else f"uid={os.getuid()},"
        argv = ["mount", "-t", "tmpfs", "-o", again + options, "tmpfs", str(self.folder)]
        done = run_process([*self._sudo, *argv])
        if done.exit_code:
            return done.stderr or f"exit {done.exit_code}"
        self.mounted = True
        return ""

    def unmount(self) -> None:
        if self.mounted:
            run_process([*self._sudo, "umount", "--lazy", self.folder])
            self.mounted = False
