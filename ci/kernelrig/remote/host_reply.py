"""Replies of a host: values that are checked, and its facts as a run records them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kernelrig.errors import ProtocolError
from kernelrig.files.validation import convert
from kernelrig.model import Host, Remote, alone, with_gpus


def read_facts(answer: object, remote: Remote, timed: bool) -> Host:
    """Return the facts that a host tells, as a run records them; ProtocolError for garbled ones."""
    found, complaints = convert(Host, answer)
    if found is None:
        why = "; ".join(c.text for c in complaints)
        raise ProtocolError(f"{remote.name}: the host's facts are garbled: {why}")
    return recorded_facts(found, remote, timed=timed)


def recorded_facts(found: Host, remote: Remote, *, timed: bool) -> Host:
    """Return the facts as a run records them: without an address, and without the folders of the
    programs on the GPU, which name users. The host has no say in which of its GPUs was meant.
    One that is `timed` has all of them.
    """
    own = {remote.host.casefold(), remote.host.casefold().partition(".")[0]}
    known = replace(
        found,
        speed=None,
        hostname=remote.name if found.hostname.casefold() in own else found.hostname,
        gpu_processes=tuple(re.sub(r"/\S*/", "", line) for line in found.gpu_processes),
    )
    meant = with_gpus(known, remote)
    return alone(meant, remote) if timed else meant


def checked_value(answer: Mapping[str, Any], key: str, kinds: tuple[type, ...]) -> Any:  # noqa: ANN401 - of one of `kinds`
    """Return a value of a reply; ProtocolError if it is not there, or of another type."""
    if key not in answer or type(answer[key]) not in kinds:
        raise ProtocolError(f"the host's reply has no good '{key}': {ascii(answer)[:80]}")
    return answer[key]
