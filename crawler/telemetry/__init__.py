"""What a worker counts, and how it is told to whoever watches."""
