"""What is tried of networks of points: the rate, and the prior, which is their weight decay.

Under `Flat` a layer's scale is learned with its weights, and the density of points has no maximum: scale and weights shrink
together wherever the data hold them weakly, as after a cut. A width that is given cannot.
"""

from bayesprune.lab.entry import Grid
from bayesprune.priors import Flat, Gaussian

FLAT, DECAY = Flat(), Gaussian(0.5)
POINTS: Grid = (("rate", (4e-2, 1e-2)), ("prior", (DECAY, FLAT)))
