"""How severe a finding is: the table, a line for each rule, and what a user says instead.

The severity of a rule and its section are those of its row in kernelrig.ptx.rules, where it has
one. What is added here is whether hardware is known to show it. "no" means that PTX forbids it and
that no GPU is known on which it does harm; "unknown", that nobody has tried, or said so here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from kernelrig.emu.machine.findings import OBSERVER_OF, Finding
from kernelrig.errors import ConfigError
from kernelrig.ptx.rules import ISA_RULES

Severity = Literal["error", "warning", "off"]
Shows = Literal["yes", "no", "unknown"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "off")

SHOWN_BY_HARDWARE: Mapping[str, Shows] = {
    "out-of-bounds": "yes",
    "misaligned": "yes",
    "mismatch": "yes",
    "deadlock": "yes",
    "lanes-not-synchronised": "yes",
    "mbarrier-never-completes": "yes",
    "mbarrier-unobserved": "yes",
    "init-without-fence": "no",
    "address-not-published": "no",
    "init-not-in-async-proxy": "no",
    "load-not-waited": "no",
    "tensor-load-read-early": "no",
    "tensor-fence-after-wait": "no",
    "tensor-lanes-unnamed": "no",
    "same-value-not-ordered": "no",
    "write-follows-from-read": "no",
    "commit-releases-no-reads": "no",
    "acquire-fence-missing": "no",
    "relaxed-wait-before-barrier": "no",
    "read-for-own-write": "no",
    "tensor-wait-without-fence": "no",
    "copy-behind-product": "no",
    "refill-without-proxy-fence": "no",
    "commit-to-an-exited-cta": "no",
    "sparse-metadata-of-zeros": "no",
    "non-coherent-load-before-write": "no",
}
"""What is known; of any other rule it is unknown."""


@dataclass(frozen=True, slots=True)
class SeverityRow:
    """A line of the table. `section` is of the PTX ISA, empty where none says it."""

    rule: str
    severity: Severity
    section: str
    shows: Shows
    text: str


def _rows() -> Iterable[SeverityRow]:
    for kind, observer in OBSERVER_OF.items():
        text = f"what is of this kind and of no rule below; observer {observer}"
        yield SeverityRow(kind, "error", "", SHOWN_BY_HARDWARE.get(kind, "unknown"), text)
    text = "work that only drivers' habits, or strong accesses of kernels, order; observer races"
    yield SeverityRow("stream-order", "warning", "", "unknown", text)
    for name, rule in sorted(ISA_RULES.items()):
        shows = SHOWN_BY_HARDWARE.get(name, "unknown")
        yield SeverityRow(name, rule.severity, rule.section, shows, rule.text)


TABLE: Mapping[str, SeverityRow] = {row.rule: row for row in _rows()}
_ALWAYS = frozenset({"mismatch", "deadlock", "step-limit"})
"""Rules that are never off, and never warnings: behind them nothing was established."""


@dataclass(frozen=True, slots=True)
class Severities:
    """What a user says of severities: by rule, and whether every warning is an error (`strict`)."""

    by_rule: Mapping[str, Severity] = field(default_factory=dict)
    strict: bool = False

    def __post_init__(self) -> None:
        for rule, severity in self.by_rule.items():
            if rule not in TABLE:
                raise ConfigError(
                    f"no rule is called {rule!r}", "python -m kernelrig.emu rules lists them"
                )
            if severity not in SEVERITIES:
                raise ConfigError(f"{rule}: a severity is {', '.join(SEVERITIES)}, not {severity}")
            if rule in _ALWAYS and severity != "error":
                raise ConfigError(f"{rule} is always an error: behind it nothing is established")

    def over(self, others: Mapping[str, Severity]) -> Severities:
        """Return these with what `others`, of a launch file, say of further rules."""
        return replace(self, by_rule={**others, **self.by_rule})

    @property
    def text(self) -> str:
        """What differs from the table, "" if nothing does."""
        said = [f"{rule}={severity}" for rule, severity in self.by_rule.items()]
        return ", ".join([*said, *(["every warning is an error"] if self.strict else [])])

    def apply(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the findings with their severities, also those that are off: they may explain
        others, and are left out once causes are linked (`shown`).
        """
        return tuple(replace(f, severity=self._of(f)) for f in findings)

    def shown(self, linked: Sequence[Finding]) -> tuple[Finding, ...]:
        """Return the findings but those that are off, each `cause` an index into what is returned.

        What follows from one that is off stands for itself, an error if it is one, and says so.
        """
        kept = [n for n, f in enumerate(linked) if f.severity != "off"]
        place = {number: at for at, number in enumerate(kept)}

        def moved(finding: Finding) -> Finding:
            if finding.cause is None or finding.cause in place:
                at = None if finding.cause is None else place[finding.cause]
                return replace(finding, cause=at)
            rule = linked[finding.cause].rule
            return replace(
                finding, cause=None, message=f"{finding.message}; follows from {rule}, which is off"
            )

        return tuple(moved(linked[n]) for n in kept)

    def _of(self, finding: Finding) -> str:
        said = self.by_rule.get(finding.rule, finding.severity)
        return "error" if said == "warning" and self.strict else said


def read_severities(words: Iterable[str], *, strict: bool = False) -> Severities:
    """Read `RULE=error`, `RULE=warning` and `RULE=off`.

    Raises:
        ConfigError: a word is none of these, or its rule is not in the table.
    """
    by_rule: dict[str, Severity] = {}
    for word in words:
        rule, _, said = word.partition("=")
        found = next((s for s in SEVERITIES if s == said), None)
        if found is None:
            raise ConfigError(f"--severity takes RULE=error, warning or off, not {word!r}")
        by_rule[rule] = found
    return Severities(by_rule, strict)


def table_text() -> str:
    """Return the table: rule, severity, whether hardware shows it, section, text."""
    head = ("rule", "severity", "on hardware", "PTX ISA", "what it says")
    lines = [head, *((r.rule, r.severity, r.shows, r.section, r.text) for r in TABLE.values())]
    widths = [max(len(line[n]) for line in lines) for n in range(4)]
    return "\n".join(
        "  ".join((*(cell.ljust(w) for cell, w in zip(line, widths, strict=False)), line[4]))
        for line in lines
    )
