"""The additional jars that Spark needs: their list, and how they are fetched.

Uses only the standard library, because the set-up of a checkout imports it before any package is installed.
"""
