"""Decodes records outside a run, for people who debug a feed.

This needs no Kafka, no database, no lake and no Airflow: records come as JSON lines, and their dialect's
decoder reads them as normalize would.
"""
