"""Kernels answer in milliseconds, but on a machine that is full."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("kernels", deadline=None)
settings.load_profile("kernels")
