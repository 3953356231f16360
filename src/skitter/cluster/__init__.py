"""Several servers or machines as one: who has what."""
