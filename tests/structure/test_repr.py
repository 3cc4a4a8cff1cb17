"""What a graph says of itself."""

import bayesprune as bp


def test_a_graph_counts_what_it_holds() -> None:
    net = bp.nets.MLP((7,), 3)
    bnn = bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(5,))
    assert repr(bnn.graph).startswith("<Graph of 4 weight arrays, ") and len(repr(bnn.graph)) < 100
