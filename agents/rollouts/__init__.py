"""From templates and seeds to specs, and from one spec to one recorded run."""
