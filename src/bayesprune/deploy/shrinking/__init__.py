"""The smaller program: what is needed, what leaves together, what is folded; and the certificate that it is the same one."""
