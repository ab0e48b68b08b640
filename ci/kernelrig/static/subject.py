"""What a static check judges: one build, and what kernels.yaml says of it."""

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
        """What findings call the kernel where no function of its is meant in particular."""
        return self.kernel.kernel_regex or self.kernel.name

    def means(self, function: str, regex: str = "") -> bool:
        """Say whether a function is one that is judged: by `regex`, or else by the kernel's own."""
        return is_called(regex or self.kernel.kernel_regex, function)

    @property
    def source(self) -> str:
        """The kernel's own file, as kernels.yaml names it: findings stand on its lines."""
        return self.kernel.sources[self.arch]

    @property
    def budget(self) -> Budget | None:
        return self.kernel.budgets.get(self.arch, {}).get(self.variant)

    @property
    def sass(self) -> SassRules | None:
        """What is expected of the SASS; None where it is said of another source alone."""
        said = self.kernel.sass.get(self.arch)
        return said if said and said.source == self.source else None

    @property
    def roles(self) -> Mapping[str, Role]:
        return self.sass.roles if self.sass else {}

    @property
    def tunables(self) -> dict[str, int]:
        """The value of each tunable in this build."""
        return self.kernel.tuned(self.arch, self.variant)
