"""The jars that Spark needs beside its own: which, and how they are fetched.

Standard library only: the set-up of a checkout imports it before any package is installed.
"""
