"""Foreign sites: their dialects, and a client that makes an Environment of them."""
