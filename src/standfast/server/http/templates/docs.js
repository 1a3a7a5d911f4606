const key = document.getElementById("the-key");
for (const form of document.forms) form.addEventListener("submit", async event => {
  event.preventDefault();
  const shown = form.querySelector("output"), data = new FormData(form), query = new URLSearchParams();
  let path = form.dataset.path;
  const headers = {"Authorization": "Bearer " + key.value};
  for (const field of form.querySelectorAll("input")) {
    const value = data.get(field.name);
    if (field.dataset.in === "path") path = path.replace("{" + field.name + "}", encodeURIComponent(value));
    else if (value && field.dataset.in === "query") query.append(field.name, value);
    else if (value) headers[field.name] = value;
  }
  const options = {method: form.dataset.method, headers, credentials: "omit"};
  if (data.has("body")) { options.body = data.get("body"); headers["Content-Type"] = "application/json"; }
  shown.textContent = "…";
  try {
    const answer = await fetch(path + (query.size ? "?" + query : ""), options), text = await answer.text();
    let body = text;
    try { body = JSON.stringify(JSON.parse(text), null, 2); } catch {}
    shown.textContent = answer.status + " " + answer.statusText + "\n" + body;
  } catch (error) { shown.textContent = String(error); }
});
