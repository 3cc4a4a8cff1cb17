"""The steps of a chain after which its networks are kept."""

from bayesprune.core.checks import check_integer
from bayesprune.train.kernel import Kernel
from bayesprune.train.snapshots import steps_of


def check_begun(kernel: Kernel, num_steps: int, begun: int) -> None:
    """Refuse to go on in the midst of a cycle: its end would not be where networks are kept. ``begun``: steps taken so far."""
    cycles = getattr(kernel, "num_cycles", 0)
    period = max(num_steps // cycles, 1) if cycles else 1
    if begun % period:
        raise ValueError(
            f"init's chain stands at step {begun}, in the midst of a cycle of {num_steps} // {cycles} = {period} steps: give a "
            f"num_steps whose {cycles} cycles are of a length that divides {begun}, or a kernel with num_cycles=0."
        )


def plan(kernel: Kernel, num_steps: int, burn_in: int, num_samples: int, every: int | None, epoch: int) -> tuple[int, ...]:
    """The last ``num_samples`` networks, the same number before the end of each cycle; `ValueError` where they do not fit."""
    check_integer(burn_in, "burn_in", minimum=0)
    asked = getattr(kernel, "num_cycles", 0)
    cycles = max(asked, 1)
    if asked and (own := getattr(kernel, "num_steps", num_steps)) != num_steps:
        raise ValueError(
            f"the kernel's cycles are parts of its num_steps={own}, and the call takes {num_steps} steps, at the "
            "ends of whose parts networks are kept: leave num_steps out of the kernel, or give both the same."
        )
    period = num_steps // cycles
    if not period:
        raise ValueError(
            f"num_cycles must be at most num_steps={num_steps}, got {cycles}: a cycle has one step at least. Give the kernel "
            "fewer cycles, or the call more steps."
        )
    ends = tuple(period * cycle for cycle in range(1, cycles + 1) if period * cycle > burn_in)
    if not ends:
        raise ValueError(f"burn_in must be below {period * cycles}, where the last cycle ends, got {burn_in}: nothing is kept.")
    if num_samples % len(ends):
        raise ValueError(
            f"num_samples must be a multiple of the {len(ends)} cycles that keep samples, got {num_samples}: all keep as many."
        )
    each, room = num_samples // len(ends), min(period, ends[0] - burn_in)
    if every is None:
        every = max(1, min(epoch, room // 2 // each))
    check_integer(every, "sample_every")
    if (each - 1) * every >= room:
        raise ValueError(
            f"{each} samples every {every} steps do not fit into the {room} steps of a cycle after burn_in: give more steps, "
            "fewer samples, or a smaller sample_every."
        )
    return steps_of(ends, each, every)
