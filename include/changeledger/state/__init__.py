"""What is known of feeds, as facts without Spark: for the command `status` and the pages in Airflow."""
