"""Runs that another Flywheel plays: it is asked by `POST /v1/predict`, on an instance of ours, which we grade."""
