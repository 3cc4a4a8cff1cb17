"""Linear operations as sparse matrices, fused with what is done to their results, by NumPy, SciPy and numba."""
