"""The comparison of the BMR paper on Fashion-MNIST, its records kept here; for the whole grid: `bayesprune reproduce bmr`.

    python benchmarks/reproduce_bmr.py run                                              # what is not in runs/bmr.jsonl yet
    python benchmarks/reproduce_bmr.py run --only net=lenet5 method=bmr --seeds 0       # one net, method and seed
    python benchmarks/reproduce_bmr.py table                                            # from the results kept here

Settings, cells and figures: `bayesprune.reproduce.bmr`.
"""

from bayesprune import cells
from bayesprune.reproduce.bmr import STUDY

if __name__ == "__main__":
    cells.main(STUDY)
