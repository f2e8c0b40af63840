"""Checks whether a feed is ready to run. Asks the installation and the source, and writes nothing.

It asks what extract asks, and reads records as normalize and the `decode` command do.
"""
