"""A small web site of the project's own, served on loopback: what `make demo` crawls and the tests measure against."""
