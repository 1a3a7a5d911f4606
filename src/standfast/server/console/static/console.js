"use strict";
// Conveniences only: every page works without this file. Stored text is only ever treated as text.

// Times of the reader's place, and how long ago they were; UTC stays as a tooltip.
const steps = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const ago = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const minute = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
const axis = { true: new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" }),
  false: new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" }) };
const localise = (root) => {
  root.querySelectorAll("time[datetime]").forEach((one) => {
    const at = new Date(one.getAttribute("datetime"));
    if (Number.isNaN(at.getTime()) || !one.getAttribute("datetime").endsWith("Z")) return;
    const past = (Date.now() - at) / 1000;
    const [unit, size] = steps.find(([, seconds]) => Math.abs(past) >= seconds) || steps[3];
    const near = Math.abs(past) < 7 * 86400 ? ` (${ago.format(-Math.round(past / size), unit)})` : "";
    one.textContent = minute.format(at) + near;
  });
  root.querySelectorAll("text[data-time]").forEach((one) => {
    one.textContent = axis[one.textContent.includes(":")].format(new Date(one.dataset.time));
  });
};
const copyable = (root) => root.querySelectorAll("button[data-copies]").forEach((button) => {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copies);
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { button.textContent = label; }, 2000);
  });
});
localise(document);
copyable(document);
// A form that names a day says how far the reader's clock is from UTC on that day.
document.querySelectorAll("input[data-zone]").forEach((zone) => zone.form.addEventListener("submit", () => {
  const day = zone.form.querySelector("input[type=date], input[type=datetime-local]");
  const chosen = day && day.value ? new Date(day.value) : new Date();
  zone.value = -chosen.getTimezoneOffset();
}));

// Live events, while the page is visible: browsers open few connections to one server, and each hidden tab would take one.
const { events, namespace } = document.body.dataset;
if (events && "EventSource" in window) {
  const kinds = ["commit", "proposal", "refusal"];
  const notice = document.getElementById("live");
  const waitMilliseconds = 3000;
  let source = null;
  let after = document.body.dataset.after;
  let changes = 0;
  let isWaiting = false;

  // A part that somebody is working in stays as it is: then only the notice says that there is more.
  const isBusy = (part) => part.contains(document.activeElement) || part.querySelector("input:checked, details[open]") !== null
    || (!getSelection().isCollapsed && part.contains(getSelection().anchorNode));
  const tell = () => {
    notice.hidden = false;
    notice.querySelector("span").textContent = `${changes} change${changes === 1 ? "" : "s"} since this page was loaded.`;
    notice.querySelector("a").href = location.href;
  };
  const renew = () => {
    isWaiting = false;
    const parts = [...document.querySelectorAll("[data-live]")];
    if (!parts.length || parts.some(isBusy)) {
      tell();
      return;
    }
    const request = new XMLHttpRequest();
    request.responseType = "document";
    request.open("GET", location.href);
    request.addEventListener("load", () => {
      if (request.status !== 200 || !request.responseXML || parts.some(isBusy)) {
        tell();
        return;
      }
      parts.forEach((part) => {
        const fresh = request.responseXML.getElementById(part.id);
        if (!fresh) return;
        const made = document.importNode(fresh, true);
        localise(made);
        copyable(made);
        part.replaceWith(made);
      });
      changes = 0;
      notice.hidden = true;
    });
    request.send();
  };
  const happened = () => {
    changes += 1;
    if (!isWaiting) {
      isWaiting = true;
      setTimeout(renew, changes === 1 ? 200 : waitMilliseconds);
    }
  };
  const follow = () => {
    if (document.hidden) {
      if (source) source.close();
      source = null;
    } else if (!source) {
      source = new EventSource(`${events}?after=${encodeURIComponent(after)}`);
      for (const kind of kinds) {
        source.addEventListener(kind, (message) => {
          after = message.lastEventId || after;
          const event = JSON.parse(message.data);
          if (!event.namespace || event.namespace === namespace) happened();
        });
      }
    }
  };
  document.addEventListener("visibilitychange", follow);
  window.addEventListener("load", follow);
  window.addEventListener("pagehide", () => { if (source) source.close(); source = null; });
}
