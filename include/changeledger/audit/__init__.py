"""The rules of the audit, as functions on tables: how many rows violate each, of how many, and some of them.

Their names, their sentences and what their failure means are in `rules`.
"""
