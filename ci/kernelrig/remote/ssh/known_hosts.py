"""Host keys: parse, fingerprint, look up in known_hosts. Nothing here connects."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelrig.errors import ConfigError

_FINGERPRINT = re.compile(r"(?:SHA256:)?([A-Za-z0-9+/]{43})=?")
_RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")


@dataclass(frozen=True, slots=True)
class HostKey:
    """A server's public key: its type and its wire form."""

    kind: str
    blob: bytes

    @property
    def line(self) -> str:
        """`ssh-ed25519 AAAA...`, the form in which a remote pins it."""
        return f"{self.kind} {base64.b64encode(self.blob).decode()}"

    @property
    def fingerprint(self) -> str:
        """`SHA256:...` as ssh-keygen -l and the rental sites print it."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode()
        return f"SHA256:{digest.rstrip('=')}"

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Return the algorithms to offer in the key exchange so that the server shows this key."""
        return _RSA_SIGNATURES if self.kind == "ssh-rsa" else (self.kind,)

    def __str__(self) -> str:
        return f"{self.kind} {self.fingerprint}"


def parse_host_key(line: str) -> HostKey:
    """Read `ssh-ed25519 AAAA... [comment]`. ConfigError unless the type named is the one inside."""
    words = line.split()
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (IndexError, binascii.Error) as e:
        raise ConfigError(
            f"'{line[:60]}' is not a host key",
            "write it as `ssh-ed25519 AAAA...`, the words that ssh-keyscan prints after the host",
        ) from e
    name_length = int.from_bytes(blob[:4], "big")
    if blob[4 : 4 + name_length] != words[0].encode():
        raise ConfigError(f"host key '{line[:60]}' does not hold a key of type {words[0]}")
    return HostKey(words[0], blob)


def parse_fingerprint(text: str) -> str:
    """Return `text` as `SHA256:<43 characters>`; other hashes are refused."""
    match = _FINGERPRINT.fullmatch(text.strip())
    if match is None:
        raise ConfigError(
            f"'{text}' is not a SHA256 fingerprint",
            "give it as `ssh-keygen -lf FILE` prints it: SHA256: and 43 characters",
        )
    return f"SHA256:{match[1]}"


def known_keys(files: Iterable[Path], host: str, port: int) -> tuple[HostKey, ...]:
    """Return the keys that known_hosts files hold for a host; a revoked key is never among them."""
    name = host if port == 22 else f"[{host}]:{port}"
    kept: list[HostKey] = []
    revoked: set[bytes] = set()
    for marker, names, key in _entries(files):
        if not _matches(names, name.lower()):
            continue
        if marker == "@revoked":
            revoked.add(key.blob)
        elif not marker:  # @cert-authority is a key that signs, not the host's own
            kept.append(key)
    return tuple(key for key in kept if key.blob not in revoked)


def _entries(files: Iterable[Path]) -> Iterator[tuple[str, str, HostKey]]:
    for file in files:
        if not file.is_file():
            continue
        for line in file.read_text(errors="replace").splitlines():
            words = line.split()
            marker = words.pop(0) if words and words[0].startswith("@") else ""
            if len(words) < 3 or words[0].startswith("#"):
                continue
            try:
                yield marker, words[0], parse_host_key(f"{words[1]} {words[2]}")
            except ConfigError:
                continue  # as in ssh: one line of an unknown type must not hide the others


def _matches(names: str, name: str) -> bool:
    """Return whether a host field of known_hosts (list, wildcards, `!`, hash) matches `name`."""
    if names.startswith("|1|"):
        try:
            salt, wanted = (base64.b64decode(part) for part in names[3:].split("|"))
        except (ValueError, binascii.Error):
            return False
        # The file format prescribes SHA-1 (sshd(8)); it hides names here and protects no key.
        return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), wanted)
    found = False
    for pattern in names.lower().split(","):
        # [host]:port has literal brackets; in fnmatch a bracket begins a set of characters.
        if fnmatch.fnmatchcase(name, pattern.lstrip("!").replace("[", "[[]")):
            if pattern.startswith("!"):
                return False
            found = True
    return found
