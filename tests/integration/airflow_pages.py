"""A person who uses Airflow's pages."""

from __future__ import annotations

from datetime import datetime

from tests.integration.browser import Browser, until
from tests.integration.newcomer import PATIENCE, Shell

_POPOVER = "//*[@data-scope='popover'][@data-part='content'][@data-state='open']"
_MANUAL = "SELECT run_id FROM dag_run WHERE dag_id = %s AND run_type = 'manual' ORDER BY id"


class Pages:
    def __init__(self, browser: Browser, shell: Shell) -> None:
        self.browser, self.shell = browser, shell
        self.airflow = shell.airflow
        ((self.user, password),) = self.airflow.passwords().items()
        browser.go(self.airflow.url)
        browser.type("//input[@name='username']", self.user)
        browser.type("//input[@name='password']", password, enter=True)
        browser.find("//*[text()='Dags']", PATIENCE)

    def go(self, path: str) -> None:
        self.browser.go(f"{self.airflow.url}/{path}")

    def await_text(self, *texts: str) -> None:
        shown = lambda: self.browser.text  # noqa: E731
        until(lambda: all(text in shown() for text in texts), PATIENCE, lambda: f"{texts}: {shown()[:3000]}")

    def trigger(self, dag: str) -> str:
        """Triggers a run with the form as it opens, and returns the run."""
        self.open_form(dag)
        return self.submit(dag)

    def open_form(self, dag: str) -> None:
        self.go(f"dags/{dag}")
        self.browser.click("//button[@data-testid='trigger-dag-button']", PATIENCE)

    def submit(self, dag: str) -> str:
        before = self.shell.asked(_MANUAL, dag)
        self.browser.click("//button[@data-testid='trigger-dag-submit']")
        until(
            lambda: len(self.shell.asked(_MANUAL, dag)) > len(before),
            PATIENCE,
            lambda: self.browser.text[:3000],
        )
        return str(self.shell.asked(_MANUAL, dag)[-1][0])

    def choose(self, name: str, answer: str) -> None:
        """Chooses an answer in a select of the form."""
        self.browser.click(f"{_field(name)}//input[@role='combobox']")
        self.browser.click(f"//*[@role='option'][contains(., '{answer}')]")

    def pick(self, name: str, moment: datetime) -> None:
        """Picks a time with the form's date-time picker."""
        page = self.browser
        page.click(f"{_field(name)}//*[@data-testid='datetime-input']")
        page.type(f"{_POPOVER}//input[@placeholder='YYYY/MM/DD']", f"{moment:%Y/%m/%d}")
        time = f"{_POPOVER}//input[@placeholder='HH:mm']"
        page.type(time, f"{moment:%H:%M}", enter=True)
        assert page.value(time) == f"{moment:%H:%M}"
        # Clicks elsewhere, which closes the picker.
        page.click(f"{_field(name)}//label")

    def await_end(self, dag: str, run: str, state: str = "success") -> None:
        """Waits without a page until the run has ended: a page that shows a run redraws all the time, which
        takes half a processor."""
        self.browser.go("about:blank")
        ended = "SELECT 1 FROM dag_run WHERE dag_id = %s AND run_id = %s AND state IN ('success', 'failed')"
        self.shell.await_rows(ended, dag, run)
        tasks = "SELECT task_id, state FROM task_instance WHERE dag_id = %s AND run_id = %s"
        assert self.state(dag, run) == state, self.shell.asked(tasks, dag, run)

    def state(self, dag: str, run: str) -> str:
        query = "SELECT state FROM dag_run WHERE dag_id = %s AND run_id = %s"
        return str(self.shell.asked(query, dag, run)[0][0])

    def follow(self, dag: str, run: str, task: str, name: str) -> str:
        """Follows a task's link, and returns its address."""
        self.go(f"dags/{dag}/runs/{run}/tasks/{task}/details")
        link = self.browser.attribute(f"//a[contains(., '{name}')]", "href")
        assert link is not None
        self.browser.go(link)
        return link


def _field(name: str) -> str:
    return f"//*[@role='group'][.//label[starts-with(normalize-space(.), '{name}')]]"
