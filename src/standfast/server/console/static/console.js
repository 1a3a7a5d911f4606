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
