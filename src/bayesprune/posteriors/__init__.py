"""Families of posteriors, one file each: the names of their parameters, and what the parameters mean."""
