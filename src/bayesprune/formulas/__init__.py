"""Closed forms, arrays in and arrays out: no trees, no randomness, no state. Numbers in parentheses are docs/methods.md's."""
