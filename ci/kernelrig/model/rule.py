"""Rules of the static checks: those of kernelrig, and those written in kernels.yaml."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that is checked without a GPU. R0xx resources, S0xx SASS, W0xx warp roles, P0xx PTX,
    F0xx fingerprint, T0xx tunables; `name` is kebab-case.
    """

    code: str
    name: str
    what: str
    why: str
    fix: str

    @property
    def title(self) -> str:
        """The name of the rule's Check."""
        return f"{self.code} {self.name}"


@dataclass(frozen=True, slots=True)
class SassRule(Rule):
    """A rule over the disassembly: exactly one of must_have, must_not_have, count, order.

    An opcode pattern is a mnemonic up to any of its dots: LDTM finds LDTM.x32. A count is an
    expression over the tunables. An `order` requires that on every path to the last of its patterns
    the one before it is passed, after the latest `since` if there is one, else after the entry.
    `function` is a regular expression, by default the kernel's; `variants` are those checked, by
    default all.
    """

    function: str = ""
    role: str = ""
    variants: tuple[str, ...] = ()
    within: Literal["function", "loops"] = "function"
    must_have: tuple[str, ...] = ()
    must_not_have: tuple[str, ...] = ()
    count: dict[str, str] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    since: str = ""


@dataclass(frozen=True, slots=True)
class Role:
    """A warp role, identified by instructions that only its warps issue.

    `places` is how many copies of its code there are, as an expression over the tunables: a role
    whose warps are of two kinds may have a copy for each.
    """

    name: str
    issues: tuple[str, ...]
    places: str = "1"


@dataclass(frozen=True, slots=True)
class Latency:
    """An asynchronous load whose distance to its wait is reported as a fact, without a verdict.

    The instructions between the two times `warps` (an expression over the tunables) estimate how
    many of the load's `cycles` of latency are hidden.
    """

    load: str
    cycles: int
    warps: str = "1"


@dataclass(frozen=True, slots=True)
class SassRules:
    """What is expected of the SASS of one source; a build of another source is not judged by it."""

    source: str
    roles: dict[str, Role] = field(default_factory=dict)
    latencies: tuple[Latency, ...] = ()
    rules: tuple[SassRule, ...] = ()
