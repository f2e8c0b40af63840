"""The rules of the audit, as functions on tables: how many rows break each rule, of how many, with samples.

The rules' names, sentences and severities are in `rules`.
"""
