"""Data sets by name, checked and standardised: `load` gives (train, test)."""

from bayesprune.data.catalogue import names as names
from bayesprune.data.images import pad_to as pad_to
from bayesprune.data.loading import load as load
from bayesprune.data.loading import load_test as load_test
from bayesprune.data.loading import uci_splits as uci_splits
from bayesprune.data.scaling import Scaling as Scaling
from bayesprune.data.scaling import fit_scaling as fit_scaling
from bayesprune.data.scaling import standardise as standardise
from bayesprune.data.simulations import Simulation as Simulation
from bayesprune.data.simulations import linear_regression as linear_regression
from bayesprune.data.simulations import simulate as simulate
