import numpy as np
import pytest

import bayesprune as bp
from bayesprune.report.plots_calibration import uncertainty_parts


def test_rows_rise_to_the_least_sure_and_the_parts_add_up() -> None:
    parts = bp.Uncertainty(np.array([3.0, 1.0, 2.0]), np.array([1.0, 0.5, 2.0]), np.array([2.0, 0.5, 0.0]))
    below, above = uncertainty_parts(parts, "cm²").axes[0].collections
    tops = [area.get_paths()[0].vertices[:, 1].max() for area in (below, above)]
    assert tops == [2.0, 3.0]
    assert bp.plots.uncertainty_parts(parts).axes[0].get_ylabel() == "uncertainty"


def test_several_outputs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"parts must be \(rows,\) each"):
        uncertainty_parts(bp.Uncertainty(*np.ones((3, 4, 2))))
