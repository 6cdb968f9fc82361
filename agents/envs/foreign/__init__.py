"""Sites that somebody else built: what their answers look like, and a client that makes an Environment of them."""
