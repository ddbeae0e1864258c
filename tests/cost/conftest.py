"""Fixtures of the AWS backend's tests, for the tests of what it costs."""

from __future__ import annotations

from tests.aws.conftest import opening, place, proxy

__all__ = ["opening", "place", "proxy"]
