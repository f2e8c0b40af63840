"use strict";
// Airflow shows this page in a frame whose sandbox forbids links to open around it. Links to Airflow's own
// pages (data-airflow) are handed to its router instead, and what is to be printed alone (data-alone) is
// opened by a link of the page around.
(() => {
  const outer = window.parent;
  if (outer === window) return;
  document.addEventListener("click", (event) => {
    const alone = event.target.closest("a[data-alone]");
    if (alone && !event.button) {
      const link = outer.document.createElement("a");
      Object.assign(link, { href: alone.href, target: "_blank", rel: "noopener" });
      event.preventDefault();
      link.click();
      return;
    }
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
