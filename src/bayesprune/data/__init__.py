"""Data sets by name, checked and standardised: `load` gives (train, test)."""

from bayesprune.data.augment import CropFlip as CropFlip
from bayesprune.data.catalogue import names as names
from bayesprune.data.images import pad_to as pad_to
from bayesprune.data.loading import load as load
from bayesprune.data.loading import load_test as load_test
from bayesprune.data.loading import uci_splits as uci_splits
from bayesprune.data.saha import saha_1 as saha_1
from bayesprune.data.saha import saha_2 as saha_2
from bayesprune.data.saha import saha_3 as saha_3
from bayesprune.data.saha import saha_influence as saha_influence
from bayesprune.data.scaling import Scaling as Scaling
from bayesprune.data.scaling import fit_scaling as fit_scaling
from bayesprune.data.scaling import standardise as standardise
from bayesprune.data.simulations import linear_regression as linear_regression
from bayesprune.data.simulations import simulate as simulate
from bayesprune.data.teachers import Layer as Layer
from bayesprune.data.teachers import teacher as teacher
from bayesprune.data.teachers import teacher_student as teacher_student
from bayesprune.data.truth import Simulation as Simulation
