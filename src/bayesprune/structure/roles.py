"""The roles that a reading has found, weight array by weight array."""

from bayesprune.structure.graph import Role
from bayesprune.structure.recorder import Recorder


def roles(recorder: Recorder, heads: int) -> dict[str, Role]:
    """Roles by site, in the order of first use, unused sites first. ``heads``: bits of the kernels next to the outputs."""
    last = _last(recorder, heads)
    unused = [site for site in range(len(recorder.names)) if site not in recorder.order]
    found = {}
    for site in (*unused, *recorder.order):
        shape = recorder.shapes[site]
        axes = recorder.axes.get(site) or _unseen(recorder, site)
        before = recorder.trailing.get(site, 0)
        is_norm = bool(recorder.norms >> site & 1)
        trails = site not in recorder.axes and not is_norm and before != 0 and not before & ~last
        found[recorder.names[site]] = Role(
            shape=shape,
            **axes,
            looked_up=site in recorder.looked_up,
            channel_groups=recorder.channel_groups.get(site, 1),
            is_norm=is_norm,
            is_last=bool(last >> site & 1) or trails,
            used=site in recorder.order,
        )
    return found


def _unseen(recorder: Recorder, site: int) -> dict[str, tuple[int, ...]]:
    """The axes of an array that was seen in no product: all outputs, as of a bias; of what is not followed, by Flax's order."""
    axes = tuple(range(len(recorder.shapes[site])))
    followed = site in recorder.order and recorder.names[site] not in recorder.unfollowed
    return {"outputs": axes} if followed or len(axes) < 2 else {"inputs": axes[:-1], "outputs": axes[-1:]}


def _last(recorder: Recorder, heads: int) -> int:
    """Bits of the last kernels: next to the outputs, and not on the way to another that is.

    So of residual branches that are summed to the outputs only the last counts, and of parallel heads each.
    """
    near = [site for site in recorder.axes if heads >> site & 1]
    on_the_way = 0
    for site in near:
        on_the_way |= recorder.behind.get(site, 0) & ~(1 << site)
    last = 0
    for site in near:
        last |= (1 << site) & ~on_the_way
    if not last and recorder.order:
        last = 1 << list(recorder.order)[-1]
    return last
