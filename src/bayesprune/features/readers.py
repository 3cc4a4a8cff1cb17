"""What reads the inputs of a network, and whether its kernels are one chain: read off its layout, else taken for granted."""

from collections.abc import Sequence

from bayesprune.core.layout import MOVED, ROWS
from bayesprune.features.gates import Gates
from bayesprune.model.layout import Layout, ParamSpec

REMEDY = "pass the kernels of one chain as a list of arrays (inputs, outputs), input side first, without layout"


def of_inputs(layers: Sequence[Gates], layout: Layout | None) -> Sequence[Gates]:
    """The kernels that read the inputs: without a layout the first one, else those that the network's trace has found.

    Raises `ValueError` where one of them is missing, reads more than the inputs as they are, or is not followed.
    """
    if layout is None:
        return layers[:1]
    kernels = _followed(layout)
    reading = {site: spec for site, spec in kernels.items() if any(map(_is_rows, spec.reads or ()))}
    given = [layer for layer in layers if layer.site in reading]
    if missing := [site for site in reading if site not in {layer.site for layer in layers}]:
        raise ValueError(
            f"posterior lacks {missing}, which read the inputs too: pass every kernel that does, of one without gates ones."
        )
    if not given:
        raise ValueError(f"no kernel of posterior reads the inputs, got {[layer.site for layer in layers]}.")
    for spec in (reading[layer.site] for layer in given):
        if not all(map(_is_rows, spec.reads or ())) or len(spec.reads or ()) > 1:
            raise ValueError(
                f"{spec.path} reads {_words(spec.reads or ())}, so that its rows are not one input each: ask of kernels that "
                f"read the inputs as they are, or {REMEDY}."
            )
    if len({reading[layer.site].reads for layer in given}) > 1:
        raise ValueError(
            f"{[layer.site for layer in given]} read different arrays of inputs: ask of each array by itself, of its kernel "
            "as a list of one array (inputs, outputs), without layout."
        )
    sizes = {layer.site: layer.log_alive.shape[0] for layer in given}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"the kernels that read the inputs have different numbers of them, {sizes}: {REMEDY}.")
    return given


def check_chain(layers: Sequence[Gates], layout: Layout | None) -> None:
    """Refuse kernels of which each does not read the one before it, and that alone; further ones may follow the last.

    Without a layout nothing is known but their widths, which `importance` looks at.
    """
    if layout is None:
        return
    kernels, sites = _followed(layout), [layer.site for layer in layers]
    for before, site in zip([ROWS, *sites], sites, strict=False):
        reads = kernels[site].reads or ()
        if not (reads == (before,) or (before == ROWS and len(reads) == 1 and _is_rows(reads[0]))):
            raise _no_chain(f"{site} reads {_words(reads)}, not {_words([before])} alone, as they are")
    inside = lambda names: [name for name in names if _is_rows(name) or name in sites[:-1]]  # noqa: E731
    for site, spec in kernels.items():
        if site not in sites and (taken := inside(spec.reads or ())):
            raise _no_chain(f"{site}, which posterior lacks, reads {_words(taken)} too")
        if around := inside(spec.beside):
            raise _no_chain(f"the outputs get {_words(around)} also past the kernels that follow")


def _followed(layout: Layout) -> dict[str, ParamSpec]:
    """The kernels of a network, in its order; an error where it is not known what one of them reads."""
    kernels = {str(spec.path): spec for spec in layout if spec.inputs}
    if lost := [site for site, spec in kernels.items() if spec.reads is None]:
        raise ValueError(
            f"what {lost} read is not followed (see bnn.graph.unfollowed), so it is not known which kernels read the inputs: "
            f"{REMEDY}."
        )
    return kernels


def _no_chain(why: str) -> ValueError:
    return ValueError(
        f"importance needs kernels that are one chain, and {why}. Ask inclusion_probabilities or selected, which need only the "
        f"kernels that read the inputs; or {REMEDY}."
    )


def _is_rows(name: str) -> bool:
    return name.startswith(ROWS)


def _words(names: Sequence[str]) -> str:
    """What is read, in words.

    >>> _words(("<x>", "a.kernel", "<moved>"))
    'the inputs and a.kernel (left out, joined or reordered in part)'
    """
    said = ["the inputs" if _is_rows(name) else name for name in names if name != MOVED]
    moved = " (left out, joined or reordered in part)" if MOVED in names else ""
    return (" and ".join(dict.fromkeys(said)) or "no kernel and no inputs") + moved
