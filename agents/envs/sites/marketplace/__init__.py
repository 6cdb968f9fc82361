"""Harbourline: boat classifieds whose boats and addresses are generated from a seed."""
