import subprocess
import sys
from pathlib import Path

import pytest

ALONE = """
import sys
import bayesprune as bp
assert not any(name.split(".")[0] == "sklearn" for name in sys.modules), "scikit-learn was imported"
assert bp.features.control_fdr
sys.modules["sklearn"] = None
try:
    bp.BayesianSparseRegressor
except ImportError as error:
    assert "pip install 'bayesprune[data]'" in str(error), error
else:
    raise AssertionError("no error")
"""


@pytest.mark.slow
def test_scikit_learn_is_asked_for_when_it_is_needed_and_missed_with_a_remedy():
    source = Path(__file__).resolve().parents[2] / "src"
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False, cwd=source)
    assert done.returncode == 0, done.stderr
