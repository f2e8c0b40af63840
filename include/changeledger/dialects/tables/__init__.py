"""Shared parts of the two change-table dialects: raw rows bound by name, their values, their outcomes."""
