"""PyTorch's loaders and tf.data, where they are installed: fits of what they give, and figures of held-out rows."""

import jax
import numpy as np
import pytest

import bayesprune as bp
from tests.infer import programs
from tests.infer.test_data import BNN, DATA, KEY, same_fit

SETTINGS = {"num_steps": 8, "progress": False, "eval_every": 4, "eval_samples": 2}


@pytest.mark.slow
def test_a_dataset_and_a_seeded_loader_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    tensors = torch.utils.data.TensorDataset(torch.from_numpy(DATA.x), torch.from_numpy(DATA.y))
    in_memory = bp.fit_svi(KEY, BNN, DATA, batch_size=16, eval_data=DATA, **SETTINGS)
    plain = torch.utils.data.DataLoader(tensors, batch_size=25)
    assert same_fit(bp.fit_svi(KEY, BNN, tensors, batch_size=16, eval_data=plain, **SETTINGS), in_memory)

    def loader():
        return torch.utils.data.DataLoader(tensors, batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(1))

    fits = [bp.fit_svi(KEY, BNN, loader(), num_rows=60, eval_data=plain, **SETTINGS) for _ in range(2)]
    assert same_fit(*fits) and not np.array_equal(fits[0].losses, in_memory.losses)
    with pytest.raises(ValueError, match="do not shuffle what a fit is evaluated on"):
        bp.fit_svi(KEY, BNN, DATA, batch_size=16, eval_data=loader(), **SETTINGS)


@pytest.mark.slow
def test_batches_of_tf_data() -> None:
    tf = pytest.importorskip("tensorflow")
    rows = tf.data.Dataset.from_tensor_slices((DATA.x, DATA.y))
    listed = [(DATA.x[n : n + 16], DATA.y[n : n + 16]) for n in range(0, 60, 16)]
    fits = [bp.fit_svi(KEY, BNN, each, num_rows=60, eval_data=each, **SETTINGS) for each in (rows.batch(16), listed)]
    assert same_fit(*fits)
    assert programs.same_bits(*(jax.tree.map(np.asarray, fit.history) for fit in fits))
