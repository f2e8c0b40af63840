"""The first view: one line for each feed."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from changeledger.airflow_ui.access import VisibleFeeds
from changeledger.airflow_ui.rendering import render

router = APIRouter()


@router.get("/")
def feeds(request: Request, visible: VisibleFeeds) -> HTMLResponse:
    return render(request, "feeds.html.j2", feeds=list(visible.values()))
