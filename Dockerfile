# One image for Airflow's services, Spark's master and its workers: one Python, one Spark, one set of jars.
FROM python:3.11.13-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless curl procps \
    && rm -rf /var/lib/apt/lists/*

ENV AIRFLOW_HOME=/opt/airflow \
    PYTHONUNBUFFERED=1

WORKDIR /opt/changeledger
COPY requirements.txt ./
RUN pip install --no-cache-dir --require-hashes --requirement requirements.txt

# Fetched by the Ivy that pyspark brings, each checked against jars/jars.sha256.
COPY jars/ jars/
COPY scripts/jars.py scripts/jars.py
RUN python -c "import pathlib, sys, pyspark; sys.path.insert(0, 'scripts'); import jars; \
    jars.ensure(['spark'], next(pathlib.Path(pyspark.__path__[0], 'jars').glob('ivy-*.jar')), 'java')" \
    && rm -rf .cache

COPY pyproject.toml README.md ./
COPY include/ include/
COPY jobs/ jobs/
COPY dags/ dags/
# Editable: jobs/ and .jars/ are found beside the package.
RUN pip install --no-cache-dir --no-deps --editable .

RUN useradd --create-home --uid 50000 changeledger \
    && mkdir -p state warehouse "$AIRFLOW_HOME/logs" \
    && chown -R changeledger state warehouse "$AIRFLOW_HOME"
USER changeledger
