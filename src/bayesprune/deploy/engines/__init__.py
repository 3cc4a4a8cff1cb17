"""Prediction by a compact network: of one network, of many drawn ones, of moments; and which is the quickest."""
