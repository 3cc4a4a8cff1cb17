"""What a fit's arguments alone forbid, looked at before anything of the network is traced for training."""

from typing import Any

import jax
from numpyro.handlers import seed, trace

from bayesprune.core.checks import check_mask, unknown_name
from bayesprune.core.keys import abstract_key
from bayesprune.core.tracing import by_one_thread
from bayesprune.model.bnn import BNN
from bayesprune.model.families import MapFamily
from bayesprune.model.own_family import check_cut
from bayesprune.prune.keep_all import KeepAll
from bayesprune.prune.needs import check_needs, needs_of, no_spread, nothing_to_prune
from bayesprune.train.storage import STORAGES


def check_before(program: Any, sparsifier: Any, mask: Any, storage: str, start: Any = None) -> None:
    """Refuse an unknown storage; and of a `BNN` what sparsifier and mask ask and it cannot have, by its guide's abstract trace.

    Values, of the parameters to ``start`` from say, are looked at later.
    """
    if storage not in STORAGES:
        raise unknown_name("storage", storage, STORAGES)
    acts = not isinstance(sparsifier, KeepAll)
    if storage == "active" and mask is None and not acts and start is None:
        raise ValueError("storage='active' keeps alive weights only, and nothing is dead: give sparsifier= or mask=.")
    if not isinstance(program, BNN):
        return
    masked = mask is not None and (not isinstance(mask, dict) or bool(mask))
    if masked or acts:
        check_cut(program)
    if masked:
        check_mask(mask, {str(spec.path): spec.shape for spec in program.layout if spec.prunable})
    if acts:
        _check_sparsifier(program, sparsifier)


def _check_sparsifier(bnn: BNN, sparsifier: Any) -> None:
    if not any(spec.prunable for spec in bnn.layout):
        raise nothing_to_prune("sparsifier has", bnn)
    needs = needs_of(sparsifier)
    if needs.spread and isinstance(bnn.family, MapFamily):
        raise no_spread(sparsifier)
    if needs.groups:
        bnn.groups(needs.groups)

    def guide(rng_key: jax.Array) -> None:
        sites = trace(seed(bnn.guide, rng_key)).get_trace()
        check_needs(sparsifier, bnn.read({n: site["value"] for n, site in sites.items() if site["type"] == "param"}), bnn)

    jax.eval_shape(by_one_thread(guide), abstract_key())
