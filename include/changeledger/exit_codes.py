"""How a job's process tells Airflow's task whether another try can help."""

# A ChangeledgerError that is not retryable; argparse ends with 2 as well, and rightly so.
FINAL = 2
# EX_TEMPFAIL of sysexits.h.
RETRY = 75
