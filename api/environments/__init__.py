"""Environments: connected to, probed, admitted, leased."""
