"""Measurements: CPU a page beside other crawlers, requests a page on AWS. See README.md."""
