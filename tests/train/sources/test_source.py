"""Rows and batches by their names: what is no input or target passes, but not what is meant to weigh rows."""

from types import SimpleNamespace

import jax
import numpy as np
import pandas as pd
import pytest

import bayesprune as bp
from bayesprune.core.fields import check_no_weights
from bayesprune.train.sources.source import as_pair

X, Y, W = np.ones((4, 2), np.float32), np.ones(4, np.float32), np.ones(4, np.float32)


@pytest.mark.parametrize("name", ["w", "weight", "weights", "sample_weight", "mask"])
def test_weights_of_rows_are_refused(name) -> None:
    for item in ({"x": X, "y": Y, name: W}, SimpleNamespace(x=X, y=Y, **{name: W})):
        with pytest.raises(TypeError, match=rf"has {name} beside x and y, and rows count alike: repeat rows, np\.repeat"):
            as_pair(item)


class Unreadable:
    x, y = X, Y

    @property
    def weights(self) -> None:
        raise RuntimeError("there are none yet")


def test_a_frame_s_column_is_no_method() -> None:
    with pytest.raises(TypeError, match="has mask beside x and y"):
        check_no_weights(pd.DataFrame({"x": Y, "y": W, "mask": W}), "data")


def test_what_weighs_nothing_passes() -> None:
    frame = pd.DataFrame({"x": Y, "y": W})  # frames have a method of the name mask
    for item in ({"x": X, "y": Y, "id": 3}, SimpleNamespace(x=X, y=Y, idx=W), {"x": X, "y": Y, "mask": None}):
        assert as_pair(item)[0] is X and as_pair(item)[1] is Y
    np.testing.assert_array_equal(as_pair(frame)[0], Y)
    for nothing in (False, ()):
        check_no_weights({"x": X, "y": Y, "mask": nothing}, "data")
    check_no_weights(Unreadable(), "data")
    assert as_pair({"w": X, "y": Y}, ("w", "y"))[0] is X  # where a data set calls its inputs so


def test_a_fit_says_it_of_batches_and_of_whole_data() -> None:
    settings = {"prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Normal(1.0), "input_shape": (2,)}
    bnn = bp.BNN(bp.nets.MLP((2,), 1), **settings)
    batches, whole = [{"x": X, "y": Y, "sample_weight": W}], SimpleNamespace(x=X, y=Y, sample_weight=W)
    for data, given in ((batches, {"num_rows": 4, "batch_size": 4}), (whole, {})):
        with pytest.raises(TypeError, match="sample_weight beside x and y"):
            bp.fit_svi(jax.random.key(0), bnn, data, num_steps=1, progress=False, **given)
