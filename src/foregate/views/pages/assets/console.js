// Keys, copying and the theme. Every page works without this file.
"use strict";
(() => {
  const root = document.documentElement;
  const remember = (value) => { try { value ? localStorage.setItem("theme", value) : localStorage.removeItem("theme"); } catch { /* no storage here */ } };
  const recall = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const show = (theme) => { if (theme) root.dataset.theme = theme; else delete root.dataset.theme; };
  const turn = () => {
    const next = { light: "dark", dark: "" }[root.dataset.theme ?? ""] ?? "light";
    show(next);
    remember(next);
  };
  const saved = recall();
  if (saved === "light" || saved === "dark") show(saved);

  const help = () => { const box = document.getElementById("help"); if (box) box.open ? box.close() : box.showModal(); };
  const deeds = { theme: turn, help };
  for (const button of document.querySelectorAll("[data-do]")) {
    const deed = deeds[button.dataset.do];
    if (deed) { button.hidden = false; button.addEventListener("click", deed); }
  }

  const items = () => [...document.querySelectorAll("[data-item]")].filter((item) => item.checkVisibility?.() ?? true);
  const step = (by) => {
    const every = items();
    if (!every.length) return;
    const held = document.activeElement?.closest("[data-item]");
    let place = every.indexOf(held);
    if (place < 0) {
      const below = every.findIndex((item) => item.getBoundingClientRect().bottom > 80);
      place = below < 0 ? every.length - 1 : below - (by > 0 ? 1 : 0);
    }
    const next = every[Math.min(every.length - 1, Math.max(0, place + by))];
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };
  const open = () => {
    const held = document.activeElement?.closest("[data-item]");
    if (held !== document.activeElement || !held) return false;
    const link = held.querySelector("[data-open]") ?? held.querySelector(".right .ruled a[href*='decisions'], .ruled a:not(.mark):not(.seq)") ?? held.querySelector("a[href]");
    if (link) link.click();
    return Boolean(link);
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest("input:not([type=range]), textarea, select, [contenteditable]")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const search = document.querySelector("[data-search], input[type=search]");
    if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "t") turn();
    else if (event.key === "?") help();
    else if (event.key === "/" && search) { search.focus(); search.select?.(); }
    else if (!(event.key === "Enter" && open())) return;
    event.preventDefault();
  });

  for (const text of document.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) break;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "plain";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text.textContent);
        button.textContent = "copied";
      } catch { button.textContent = "not copied"; }
    });
    text.after(" ", button);
  }
  root.dataset.script = "on";
})();
