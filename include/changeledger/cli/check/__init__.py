"""Is a feed ready to run? Asks the installation and the source before anything is written.

What is asked, and how a record is read, is what extract, normalize and the `decode` command do.
"""
