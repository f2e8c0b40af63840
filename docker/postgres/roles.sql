-- Run once by psql, when the volume is new: one database for each purpose, each with a role of its own.
-- The owner of a database makes and migrates its tables; no role sees another's database.
\set airflow `cat /run/secrets/AIRFLOW_DB_PASSWORD`
\set control `cat /run/secrets/CONTROL_DB_PASSWORD`
\set catalog `cat /run/secrets/CATALOG_DB_PASSWORD`
CREATE ROLE airflow LOGIN PASSWORD :'airflow';
CREATE ROLE control LOGIN PASSWORD :'control';
CREATE ROLE catalog LOGIN PASSWORD :'catalog';
CREATE DATABASE airflow OWNER airflow;
CREATE DATABASE control OWNER control;
CREATE DATABASE catalog OWNER catalog;
REVOKE ALL ON DATABASE airflow, control, catalog, postgres FROM PUBLIC;
