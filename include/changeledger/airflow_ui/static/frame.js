"use strict";
// Airflow shows this page in a frame whose sandbox forbids links to open around it. Links to Airflow's own
// pages (data-airflow) are handed to its router instead.
(() => {
  const outer = window.parent;
  if (outer === window) return;
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-airflow]");
    if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    try {
      outer.history.pushState(null, "", link.href);
    } catch {
      return;
    }
    event.preventDefault();
    outer.dispatchEvent(new PopStateEvent("popstate", { state: null }));
  });
})();
