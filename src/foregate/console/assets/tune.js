// The dial follows the hand from the points in the page; when the hand stops, the calls that turn are fetched.
"use strict";
(() => {
  const range = document.getElementById("range"), number = document.getElementById("number");
  const source = () => document.getElementById("points");
  if (!range || !number || !source()) return;
  let points = [], now = 0, shown = NaN, waiting = 0, asked = 0;
  let from = new URLSearchParams(location.search).get("from") ?? "";
  const read = () => ({ points, now } = JSON.parse(source().textContent));
  read();

  const find = (value) => {
    let low = 0, high = points.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (points[middle][0] <= value) low = middle; else high = middle - 1;
    }
    return low;
  };
  const digits = new Intl.NumberFormat("en");
  const put = (cell, text) => { if (cell.textContent !== text) cell.textContent = text; };
  const address = (path, value) => {
    const fields = new URLSearchParams({ key: range.form.elements.key.value, value });
    return `${path}?${fields}`;
  };
  const clamp = (value) => Math.min(Math.max(Math.trunc(value), Number(number.min)), Number(number.max));

  const show = (value) => {
    shown = value;
    const scale = document.getElementById("turning"), mark = document.getElementById("there");
    const low = Number(scale.dataset.low), end = Number(scale.dataset.end), width = Number(scale.dataset.width);
    mark.setAttribute("x", String(Math.floor((width * (Math.min(Math.max(value, low), end) - low)) / Math.max(1, end - low))));
    put(document.getElementById("at"), String(value));
    const before = points[find(now)][1], there = points[find(value)][1];
    for (const row of document.getElementById("figures").rows) {
      const place = Number(row.dataset.figure), change = there[place] - before[place];
      put(row.cells[2], digits.format(there[place]));
      put(row.cells[3], change ? `${change > 0 ? "+" : "−"}${digits.format(Math.abs(change))}` : "");
    }
    const patch = document.getElementById("patch");
    patch.setAttribute("href", address("/policy/tune/change.yaml", value));
  };

  // The page of the value the hand stopped at says which calls turn; it was judged up to the end of the log.
  const settle = async () => {
    const value = shown, mine = ++asked, list = document.getElementById("turned");
    list.setAttribute("aria-busy", "true");
    try {
      const here = address(location.pathname, value) + (from ? `&${new URLSearchParams({ from })}` : "");
      const answer = await fetch(here);
      if (!answer.ok || mine !== asked) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById("turned");
      if (mine !== asked) return;
      if (!next) { // it is still being worked out: a page that is opened then looks again as well
        waiting = setTimeout(settle, 1000);
        return;
      }
      const items = [...list.querySelectorAll("[data-item]")], held = items.indexOf(document.activeElement?.closest("[data-item]"));
      for (const id of ["turned", "points", "figures", "rests", "turning"]) {
        const mineOf = document.getElementById(id), theirs = page.getElementById(id);
        if (theirs) mineOf.replaceWith(document.adoptNode(theirs));
      }
      read();
      show(value);
      history.replaceState(null, "", here);
      if (held >= 0) document.querySelectorAll("#turned [data-item]")[held]?.focus({ preventScroll: true });
    } catch { /* the figures stand; the list is that of before */ } finally {
      if (mine === asked) document.getElementById("turned").removeAttribute("aria-busy");
    }
  };
  const follow = (value) => {
    if (value !== shown) from = ""; // the list of another value begins at its newest call
    show(value);
    clearTimeout(waiting);
    waiting = setTimeout(settle, 200);
  };
  const move = (value) => {
    range.value = String(value);
    number.value = String(value);
    follow(value);
  };

  range.hidden = false;
  range.addEventListener("input", () => { number.value = range.value; follow(Number(range.value)); });
  number.addEventListener("input", () => {
    if (!number.value || !number.checkValidity()) return;
    range.value = number.value;
    follow(clamp(Number(number.value)));
  });
  number.form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    settle();
  });
  document.addEventListener("click", (event) => {
    const step = event.target.closest("[data-step]");
    if (!step) return;
    event.preventDefault();
    const by = Number(step.dataset.step), place = find(shown);
    if (by > 0 && place + 1 < points.length) move(points[place + 1][0]);
    else if (by < 0 && place > 0) move(points[place][0] - 1);
    else if (by === 0) move(now);
  });

  const complain = (form, text) => {
    const page = new DOMParser().parseFromString(text, "text/html"), said = document.createElement("p");
    said.className = "problem";
    said.setAttribute("role", "alert");
    said.textContent = (page.querySelector("main") ?? page.body).textContent.trim().slice(0, 300);
    form.append(said);
  };

  // One key labels the call that is marked; the mark goes on to the next.
  const send = async (button) => {
    const form = button.form, row = form.closest("[data-item]");
    const fields = new URLSearchParams(new FormData(form, button));
    const answer = await fetch(form.action, { method: "POST", body: fields, redirect: "manual" });
    if (answer.type !== "opaqueredirect") { complain(form, await answer.text()); return; }
    for (const one of form.querySelectorAll("button")) one.toggleAttribute("aria-pressed", false);
    button.setAttribute("aria-pressed", "true");
    if (row.contains(document.activeElement)) row.nextElementSibling?.focus();
    clearTimeout(waiting);
    waiting = setTimeout(settle, 400);
  };
  document.addEventListener("submit", (event) => {
    if (!event.submitter?.dataset.labelKey) return;
    event.preventDefault();
    send(event.submitter);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
    const row = document.activeElement?.closest("#turned [data-item]");
    const button = row?.querySelector(`[data-label-key="${CSS.escape(event.key)}"]`);
    if (!button) return;
    event.preventDefault();
    button.click();
  });
  show(Number(number.value));
})();
