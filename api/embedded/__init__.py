"""The PostgreSQL that ships with flywheel: one private server per home, on a unix socket."""

from .account import Way, how_to_run
from .cluster import Status, down, endpoints, status, up
from .record import Endpoints

__all__ = ["Endpoints", "Status", "Way", "down", "endpoints", "how_to_run", "status", "up"]
