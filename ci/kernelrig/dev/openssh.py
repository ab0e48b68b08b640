"""The OpenSSH server that the tests start on loopback; installed with apt if we are root."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kernelrig.errors import CiError
from kernelrig.proc import run_process

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
"""The folders of sshd, which the PATH of a user who is not root often lacks."""
POLICY = Path("/usr/sbin/policy-rc.d")
_PACKAGE = "openssh-server"
_BY_HAND = f"install it with: sudo apt-get install {_PACKAGE}"


def find_sshd(sbin: str = SBIN) -> Path | None:
    """Return the path of sshd, which must be started by its absolute path."""
    found = shutil.which("sshd", path=sbin)
    return Path(found) if found else None


def require_sshd(*, sbin: str = SBIN, policy: Path = POLICY, is_root: bool | None = None) -> Path:
    """Return sshd, installed with apt where it is missing and we are root.

    Raises CiError with the command to type where it cannot be installed here.
    """
    if sshd := find_sshd(sbin):
        return sshd
    root = os.geteuid() == 0 if is_root is None else is_root
    if not root or shutil.which("apt-get") is None:
        raise CiError("no sshd in /usr/sbin, and the tests of SSH need it", _BY_HAND)
    _install(policy)
    if sshd := find_sshd(sbin):
        return sshd
    raise CiError(f"apt-get installed {_PACKAGE}, and no sshd is in {sbin}", _BY_HAND)


def _install(policy: Path) -> None:
    """Install the package; policy-rc.d keeps Debian from starting its server."""
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ("apt-get", "install", "-y", "-q", "--no-install-recommends", _PACKAGE)
    try:
        if run_process(install, env=env).exit_code:
            # A fresh container has no package lists.
            run_process(("apt-get", "update", "-q"), env=env)
            done = run_process(install, env=env)
            if done.exit_code:
                output = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
                raise CiError(f"apt-get could not install {_PACKAGE}: {output[-1]}", _BY_HAND)
    finally:
        if ours:
            policy.unlink()
