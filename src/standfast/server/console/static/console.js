"use strict";
// Comforts only: every page works without this file. It reads no stored text as anything but text.
document.querySelectorAll("input[type=range][data-shows]").forEach((slider) => {
  const shown = document.getElementById(slider.dataset.shows);
  const tell = () => { shown.textContent = slider.value; };
  slider.addEventListener("input", tell);
  tell();
});
document.querySelectorAll("button[data-copies]").forEach((button) => {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copies);
    const said = button.textContent;
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { button.textContent = said; }, 2000);
  });
});
