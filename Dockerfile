# One image for Airflow's services, Spark's master, workers and Connect server: one Python, one Spark, one set
# of jars.
FROM python:3.11.13-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless curl procps \
    && rm -rf /var/lib/apt/lists/*

ENV AIRFLOW_HOME=/opt/airflow \
    PYTHONUNBUFFERED=1

WORKDIR /opt/changeledger
COPY requirements.txt ./
RUN pip install --no-cache-dir --require-hashes --requirement requirements.txt

# Fetched by the Ivy that pyspark brings, each checked against jars.sha256: a layer of its own, for they rarely change.
COPY include/changeledger/__init__.py include/changeledger/
COPY include/changeledger/jars/ include/changeledger/jars/
RUN PYTHONPATH=include python -c "import pathlib, pyspark; from changeledger.jars import fetching; \
    ivy = next(pathlib.Path(pyspark.__path__[0], 'jars').glob('ivy-*.jar')); \
    jars = pathlib.Path('.jars'); \
    fetching.ensure(['spark'], jars, ivy, 'java', jars / 'ivy.log', print)"

COPY pyproject.toml README.md ./
COPY include/ include/
COPY jobs/ jobs/
COPY dags/ dags/
# Editable: feeds and .jars/ are found beside the package.
RUN pip install --no-cache-dir --no-deps --editable .

COPY docker/spark_connect.py docker/
COPY --chmod=0755 docker/with-secrets /usr/local/bin/

RUN useradd --create-home --uid 50000 changeledger \
    && mkdir -p state spill warehouse "$AIRFLOW_HOME/logs" \
    && chmod 700 state spill \
    && chown -R changeledger state spill warehouse "$AIRFLOW_HOME"
USER changeledger
ENTRYPOINT ["with-secrets"]
