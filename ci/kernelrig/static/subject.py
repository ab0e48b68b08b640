"""The subject of a static check: one build, and its entries in kernels.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernelrig.model import Budget, Kernel, Role, SassRules
from kernelrig.model.symbol import is_called


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel as one arch and variant has it."""

    kernel: Kernel
    arch: str
    variant: str

    @property
    def name(self) -> str:
        return f"{self.kernel.name}-{self.arch}-{self.variant}"

    @property
    def function(self) -> str:
        """The kernel's name in findings that belong to none of its functions."""
        return self.kernel.kernel_regex or self.kernel.name

    def means(self, function: str, regex: str = "") -> bool:
        """Return whether `function` is judged: it matches `regex`, by default the kernel's."""
        return is_called(regex or self.kernel.kernel_regex, function)

    @property
    def source(self) -> str:
        """The kernel's own file, as kernels.yaml names it: findings are located on its lines."""
        return self.kernel.sources[self.arch]

    @property
    def budget(self) -> Budget | None:
        return self.kernel.budgets.get(self.arch, {}).get(self.variant)

    @property
    def sass(self) -> SassRules | None:
        """The SASS rules; None if kernels.yaml has them only for another source."""
        rules = self.kernel.sass.get(self.arch)
        return rules if rules and rules.source == self.source else None

    @property
    def roles(self) -> Mapping[str, Role]:
        return self.sass.roles if self.sass else {}

    @property
    def tunables(self) -> dict[str, int]:
        """The value of each tunable in this build."""
        return self.kernel.tuned(self.arch, self.variant)
