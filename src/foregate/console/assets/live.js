// Pages that follow the log, and the keys of the console's lists and forms. Every page works without this file.
"use strict";
(() => {
  const PLACES = { s: "/sessions", d: "/decisions", w: "/waiting", r: "/review", i: "/statistics", p: "/policy" };
  const isTyping = (element) => Boolean(element?.closest("input:not([type=radio], [type=range]), textarea, select"));
  const isBusy = () => isTyping(document.activeElement) || Boolean(document.querySelector("dialog[open]"));

  let goes = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const place = goes ? PLACES[event.key] : "";
    const held = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    goes = event.key === "g" && !goes;
    if (place) location.assign(place);
    else if (held?.matches("textarea")) held.focus();
    else if (held) held.click();
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  // A row is opened by a click anywhere in it, as by Enter.
  document.addEventListener("click", (event) => {
    const row = event.target.closest(".entry");
    if (!row || event.target.closest("a, button, input, label, summary, select, textarea") || String(getSelection())) return;
    row.querySelector("[data-open]")?.click();
  });

  // The server says that the log has grown; the page is fetched anew, and its content put in the place of the old.
  const sign = () => document.getElementById("live");
  const say = (text) => { const place = sign(); if (place && place.textContent !== text) place.textContent = text; };
  let stream = null, isFetching = false, isStale = false;

  const remember = () => {
    const held = document.activeElement;
    return {
      item: held?.closest("main [data-item]") ? [...document.querySelectorAll("main [data-item]")].indexOf(held.closest("[data-item]")) : -1,
      id: held?.id ?? "",
      href: held?.closest("[data-item]")?.querySelector("[data-open]")?.getAttribute("href") ?? "",
      open: [...document.querySelectorAll("main details")].map((one) => one.open),
    };
  };
  const restore = (before) => {
    [...document.querySelectorAll("main details")].forEach((one, place) => { if (before.open[place]) one.open = true; });
    const items = [...document.querySelectorAll("main [data-item]")];
    const same = before.href && items.find((item) => item.querySelector("[data-open]")?.getAttribute("href") === before.href);
    const held = same || (before.id && document.getElementById(before.id)) || items[before.item];
    if (before.item >= 0) held?.focus({ preventScroll: true });
  };
  const refresh = async () => {
    isStale = true;
    if (isFetching || isBusy()) return;
    isFetching = true;
    isStale = false;
    try {
      const answer = await fetch(location.href);
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const main = page.querySelector("main"), next = page.getElementById("live");
      if (!main || isBusy()) { isStale = true; return; }
      const before = remember();
      document.querySelector("main").replaceWith(document.adoptNode(main));
      restore(before);
      if (next) sign().dataset.follow = next.dataset.follow;
    } catch { say("not reachable"); } finally {
      isFetching = false;
      if (isStale && !isBusy()) setTimeout(refresh, 250);
    }
  };
  const follow = () => {
    const address = sign()?.dataset.follow;
    if (!address || stream || document.hidden) return;
    stream = new EventSource(address);
    stream.addEventListener("open", () => say("live"));
    stream.addEventListener("grown", refresh);
    stream.addEventListener("error", () => say(stream?.readyState === EventSource.CLOSED ? "not live" : "reconnecting"));
  };
  const stop = () => { stream?.close(); stream = null; };
  // A browser opens six connections to one server: a page that nobody looks at must not hold one of them.
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : follow()));
  document.addEventListener("focusout", () => setTimeout(() => { if (isStale) refresh(); }));
  addEventListener("pagehide", stop);
  addEventListener("pageshow", follow);
})();
