"""Products of matrices in whole float32, where digits count."""

import jax

# Decorates a function. An accelerator rounds the factors of float32 products to ten bits (TF32; bfloat16: eight) unless told
# otherwise, and evidence is a small difference of large numbers. Products of the network itself are the user's to choose.
WHOLE_PRODUCTS = jax.default_matmul_precision("highest")
