"""Fixtures for all tests."""

pytest_plugins = ("tests.emulator", "tests.local_site", "tests.redis_server")
