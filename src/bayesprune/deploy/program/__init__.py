"""A network as data: operations on numbered arrays, what is known of its weights, and how it is run."""
