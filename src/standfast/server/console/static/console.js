"use strict";
// Conveniences only: every page works without this file. Stored text is only ever treated as text.
document.querySelectorAll("input[type=range][data-shows]").forEach((slider) => {
  const shown = document.getElementById(slider.dataset.shows);
  const update = () => { shown.textContent = slider.value; };
  slider.addEventListener("input", update);
  update();
});
document.querySelectorAll("button[data-copies]").forEach((button) => {
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

// Live events, while the page is visible: browsers open few connections to one server, and each hidden tab would take one.
const { events, namespace } = document.body.dataset;
if (events && "EventSource" in window) {
  const counts = { commit: 0, proposal: 0, refusal: 0 };
  const words = { commit: ["commit", "commits"], proposal: ["proposal", "proposals"], refusal: ["refusal", "refusals"] };
  const notice = document.getElementById("live");
  const list = document.getElementById("activity");
  let source = null;
  let after = document.body.dataset.after;

  const address = (page, fields) => `/console/${page}?${new URLSearchParams({ in: namespace, ...fields })}`;
  const plain = (name) => {
    const base = name.replace(/(~[0-9a-f]{12}){0,2}(@[0-9]+\.[0-9]+)?$/, "");
    return /^[ms]-[0-9a-f]{16,}(-[0-9]+)?$/.test(base) ? `${base.slice(0, 12)}…` : base;
  };
  const names = (event) => [...new Set((event.records || []).map((one) => plain(one.memory_id)))];
  const named = (event) => names(event).slice(0, 3).join(", ");
  const line = (event) => {
    if (event.kind === "proposal") {
      return event.action === "EXPIRE"
        ? ["decided", "A proposal was decided.", address("approvals", { decided: 1 })]
        : ["waiting", "A proposal waits for a decision.", address("approvals", {})];
    }
    if (event.kind === "refusal") {
      return event.namespace
        ? ["rejected", `Rejected: ${named(event)}`, address("refused", {})]
        : ["refused", "A call was refused.", address("ledger", {})];
    }
    const more = names(event).length - 3;
    const text = `Snapshot ${event.memory_snapshot_id}: ${named(event)}${more > 0 ? ` and ${more} more` : ""}`;
    return ["commit", text, address("snapshots", { at: event.memory_snapshot_id })];
  };
  const tell = (event) => {
    counts[event.kind] += 1;
    const parts = Object.keys(counts).filter((kind) => counts[kind]).map(
      (kind) => `${counts[kind]} ${words[kind][counts[kind] === 1 ? 0 : 1]}`);
    if (notice) {
      notice.hidden = false;
      notice.querySelector("span").textContent = `${parts.join(", ")} since this page was loaded.`;
      notice.querySelector("a").href = location.href;
    }
    if (list) {
      const [label, text, to] = line(event);
      const row = document.createElement("li");
      const chip = document.createElement("span");
      const link = document.createElement("a");
      const time = document.createElement("time");
      chip.className = `chip live-${label}`;
      chip.textContent = label;
      link.href = to;
      link.textContent = text;
      time.textContent = `${event.at.slice(0, 10)} ${event.at.slice(11, 19)} UTC`;
      row.append(chip, " ", link, " ", time);
      list.prepend(row);
      while (list.children.length > 200) list.lastElementChild.remove();
    }
  };
  const follow = () => {
    if (document.hidden) {
      if (source) source.close();
      source = null;
    } else if (!source) {
      source = new EventSource(`${events}?after=${encodeURIComponent(after)}`);
      for (const kind of Object.keys(counts)) {
        source.addEventListener(kind, (message) => {
          after = message.lastEventId || after;
          const event = JSON.parse(message.data);
          if (!event.namespace || event.namespace === namespace) tell(event);
        });
      }
      source.addEventListener("open", () => {
        document.querySelectorAll("[data-live-state]").forEach((one) => { one.textContent = "New lines appear by themselves."; });
      });
    }
  };
  document.addEventListener("visibilitychange", follow);
  window.addEventListener("load", follow);
  window.addEventListener("pagehide", () => { if (source) source.close(); source = null; });
}
