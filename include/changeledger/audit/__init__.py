"""The rules of the audit, as functions on tables: how many rows violate each, of how many, and some of them.

Their names, their sentences and what their violation means are in `changeledger.audit`.
"""
