"""The Data Docs of audits as pages of Airflow: who may see a feed's DAG may see what its audits found."""

from __future__ import annotations

from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import FileResponse

from changeledger.config.settings import Settings

app = FastAPI(title="Data Docs", docs_url=None, redoc_url=None, openapi_url=None)

# Pages of Great Expectations with values from sources: no part of Airflow's own origin.
_HEADERS = {
    "Content-Security-Policy": "sandbox allow-scripts allow-popups",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


# The DAG is named after its feed, or its comparison, whose folder it is. A mounted app has no login.
@app.get("/{dag_id}/{path:path}", dependencies=[Depends(requires_access_dag("GET"))])
def page(dag_id: str, path: str) -> FileResponse:
    root = Settings().data_docs.resolve()
    folder = (root / dag_id).resolve()
    file = (folder / path).resolve()
    if folder.parent != root or not file.is_relative_to(folder) or not file.is_file():
        raise HTTPException(404, "there are no Data Docs here: the audit has not run, or they were removed")
    return FileResponse(file, headers=_HEADERS)
