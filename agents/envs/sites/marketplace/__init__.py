"""Harbourline: boat classifieds whose stock and whose addresses follow from a seed."""
