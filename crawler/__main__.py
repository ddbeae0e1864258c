"""`python -m crawler` is `crawler`."""

from crawler.entrypoints.cli import main

main()
