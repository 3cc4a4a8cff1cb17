"""`bayesprune compact`: the smaller network of a finished run, as one file."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from bayesprune.cli import build, rows, settings, shipping
from bayesprune.cli.results import POSTERIOR, made_by, note_compact, read_posterior
from bayesprune.report import runs


def compact(
    out: Positional[Path],
    keep: Literal["posterior", "mean"] = "posterior",
    values: Literal["float32", "bfloat16", "posterior"] = "float32",
    num_draws: int | None = None,
    to: Annotated[Path | None, arg(metavar="FILE")] = None,
    data_dir: Path | None = None,
    net: Annotated[str | None, arg(metavar="MODULE:FUNCTION")] = None,
) -> None:
    """Write the network of a run without what its pruned weights leave idle, certified, as one file.

    Args:
        out: Folder of the run.
        keep: The weights' posterior, or the one network at its mean.
        values: How exactly numbers are kept; "posterior": to a small part of what the posterior does not know itself.
        num_draws: Keep so many drawn networks in place of a density; needed for some priors, 20 then if left out.
        to: File to write; net.bayesprune in the run's folder if left out.
        data_dir: Folder of the data sets; $BAYESPRUNE_DATA if left out.
        net: Of a run with a network of your own, its MODULE:FUNCTION once more: a folder may be anybody's, and to import the
            module runs its code. Naming it says that you trust it.
    """
    chosen = settings.load(out, net, data_dir=data_dir)
    path = to or shipping.inside(out, shipping.FILE, "--to")
    saved = read_posterior(out)
    rows.check_unchanged(chosen.data or "", saved.metadata)
    data = rows.load_data(chosen)
    bnn = build.make_bnn(chosen, data)
    small = shipping.make(bnn, saved.params, saved.mask, keep, build.keys(chosen)[1], num_draws)
    small.save(path, values, made_by(chosen, data))
    report = shipping.report(bnn, saved.params, saved.mask, small, data.test.x, path, out / POSTERIOR)
    if to is None:
        note_compact(out, report)
    print(f"{runs.shipped(report)}\nwritten:\n  {path}")
