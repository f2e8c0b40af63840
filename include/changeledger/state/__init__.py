"""Facts about feeds, gathered without Spark for the command line and the pages in Airflow."""
