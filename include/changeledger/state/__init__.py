"""What is known of rows, feeds and databases, as facts for pages and commands: no HTML, no Airflow, no Spark."""
