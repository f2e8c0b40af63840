"""Records outside a run: how a message or row is read, for people who debug a feed.

No Kafka, no database, no lake, no Airflow: records come as JSON lines, and their dialect's own decoder
reads them as normalize would.
"""
