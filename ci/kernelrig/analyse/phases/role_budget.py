"""How the mean row of each role divides into waits and work, and what each wait costs it."""

from __future__ import annotations

from collections.abc import Iterator

from kernelrig.analyse.phases.phase_names import kind_of, waits
from kernelrig.model import BudgetLine, Ceiling, PhaseCapture, RoleBudget, RolePhases


def role_budgets(capture: PhaseCapture) -> tuple[RoleBudget, ...]:
    """Return the budget of each role whose phases were all recorded."""
    return tuple(b for role in capture.roles if (b := role_budget(role)))


def role_budget(role: RolePhases) -> RoleBudget | None:
    """Return how a role's mean row divides; None where a phase or the whole is not known."""
    means = [(p.name, p.mean_cycles) for p in role.phases if p.mean_cycles is not None]
    kind = kind_of(role)
    alone = kind == "epilogue" and role.total is None and len(role.phases) == 1
    if len(means) < len(role.phases) or alone:
        return None
    parts = sum(mean for _, mean in means)
    printed = role.total.mean_cycles if role.total else None
    total = parts if printed is None else printed
    if total <= 0:
        return None
    lines = tuple(BudgetLine(name, mean, mean / total, waits(name)) for name, mean in means)
    waiting = sum(line.cycles for line in lines if line.waits)
    return RoleBudget(role.role, kind, total, waiting, parts - waiting, lines)


def ceilings(budgets: tuple[RoleBudget, ...]) -> Iterator[Ceiling]:
    """Yield, for each role, its row without each of its waits, and without all of them.

    A load warp is left out: it waits because others are slower, and would not end sooner.
    """
    for budget in (b for b in budgets if b.kind != "load"):
        held = [line for line in budget.lines if line.waits and line.cycles > 0]
        removed = [(f"the {line.phase}", line.cycles) for line in held]
        if len(held) > 1:
            removed.append(("both waits" if len(held) == 2 else "its waits", budget.waiting))
        for without, waited in removed:
            # From the parts: a printed total is rounded once more.
            left = sum(line.cycles for line in budget.lines) - waited
            if left > 0:
                yield Ceiling(budget.role, without, left, budget.total / left)
