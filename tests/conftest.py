"""Fixtures for all tests."""

pytest_plugins = ("local_site",)
