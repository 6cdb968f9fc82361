"""What the log costs and what it saves: each arm beside the plain way, or another library, in one run."""
