// Recomputes the chain of the session in this file, and compares what the page shows with what its events say.
"use strict";
(() => {
  const GENESIS = "0".repeat(64);
  const encoder = new TextEncoder();
  const verdict = document.getElementById("verdict");
  const findings = document.getElementById("findings");
  const box = document.getElementById("here");
  if (!verdict || !findings || !box) return;

  // SHA-256 (FIPS 180-4), for browsers that keep WebCrypto from a file opened from disk.
  const roots = (power, count) => {
    const found = [];
    for (let n = 2; found.length < count; n++) {
      let prime = true;
      for (let d = 2; d * d <= n; d++) if (n % d === 0) { prime = false; break; }
      if (prime) { const root = n ** (1 / power); found.push(((root - Math.floor(root)) * 2 ** 32) >>> 0); }
    }
    return found;
  };
  const K = roots(3, 64), H = roots(2, 8);
  const digestHere = (data) => {
    const size = data.length, padded = new Uint8Array(((size + 72) >> 6) << 6);
    padded.set(data);
    padded[size] = 0x80;
    const view = new DataView(padded.buffer);
    view.setUint32(padded.length - 8, Math.floor(size / 2 ** 29));
    view.setUint32(padded.length - 4, (size << 3) >>> 0);
    const state = Uint32Array.from(H), w = new Uint32Array(64);
    const turn = (x, n) => (x >>> n) | (x << (32 - n));
    for (let at = 0; at < padded.length; at += 64) {
      for (let i = 0; i < 16; i++) w[i] = view.getUint32(at + 4 * i);
      for (let i = 16; i < 64; i++) {
        const a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ (a >>> 3)) + w[i - 7] + (turn(b, 17) ^ turn(b, 19) ^ (b >>> 10));
      }
      let [a, b, c, d, e, f, g, h] = state;
      for (let i = 0; i < 64; i++) {
        const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
        const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        h = g; g = f; f = e; e = (d + one) | 0; d = c; c = b; b = a; a = (one + two) | 0;
      }
      [a, b, c, d, e, f, g, h].forEach((value, i) => { state[i] += value; });
    }
    return [...state].map((word) => word.toString(16).padStart(8, "0")).join("");
  };
  const subtle = globalThis.crypto?.subtle;
  const digest = async (text) => {
    const data = encoder.encode(text);
    if (!subtle) return digestHere(data);
    return [...new Uint8Array(await subtle.digest("SHA-256", data))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  };

  const say = (text, tone) => { verdict.textContent = text; box.classList.add(tone); };
  const add = (text) => { const item = document.createElement("li"); item.textContent = text; findings.append(item); };
  const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

  const readEvents = () => [...document.querySelectorAll("script.events")].flatMap((block) => JSON.parse(block.textContent));

  // Throws a sentence at the first event that does not fit.
  const verifyChain = async (rows) => {
    const events = new Map();
    let prev = GENESIS, session = null, count = 0;
    const kept = { masked: 0, erased: 0 };
    for (const [seq, text, hash, state] of rows) {
      if (seq !== count + 1) throw `the chain breaks at event ${count + 1}: it is missing or out of order`;
      if (!/^[0-9a-f]{64}$/.test(hash)) throw `the chain breaks at event ${seq}: its hash is none`;
      if (state === "erased") kept.erased++;
      else {
        if (state === "masked") kept.masked++;
        else if ((await digest(text)) !== hash) throw `the chain breaks at event ${seq}: its hash does not fit what it says`;
        let event;
        try { event = JSON.parse(text); } catch { throw `the chain breaks at event ${seq}: it cannot be read`; }
        if (session === null) session = event.session;
        if (event.seq !== seq || event.session !== session) throw `the chain breaks at event ${seq}: it names another number or session`;
        if (event.prev !== prev) throw `the chain breaks at event ${seq}: it does not go on from the event before it`;
        events.set(seq, event);
      }
      prev = hash;
      count = seq;
    }
    if (!count) throw "there are no events in this file";
    return { events, count, head: prev, kept };
  };

  // The text that what is shown stands for: `\u{202E}` is a hidden character.
  const readShown = (shown) => shown.replace(/\\u\{([0-9A-F]{1,6})\}/g, (_, code) => String.fromCodePoint(parseInt(code, 16)));
  const find = (event, path) => {
    let value = event;
    for (const key of path) {
      if (typeof value === "string") { try { value = JSON.parse(value); } catch { return undefined; } }
      if (value === null || typeof value !== "object" || !Object.hasOwn(value, key)) return undefined;
      value = value[key];
    }
    return value;
  };
  const compareTexts = (events) => {
    let same = 0, different = 0, skipped = 0;
    for (const element of document.querySelectorAll("[data-at]")) {
      const [seq, ...path] = element.dataset.at.split("/");
      const event = events.get(Number(seq));
      const value = event && find(event, path);
      if (typeof value !== "string") { skipped++; continue; }
      const shown = [...element.querySelectorAll(":scope > .tx, :scope > details > .tx")].map((part) => readShown(part.textContent)).join("");
      const cut = element.querySelector(":scope > details > .cut");
      if (cut ? value.startsWith(shown) : value === shown) same++;
      else {
        different++;
        element.classList.add("differs");
        if (different <= 20) add(`what the page shows of event ${seq} is not what it says (${path.join(".").slice(0, 80)})`);
      }
    }
    return { same, different, skipped };
  };
  const findMissing = (events, last) => {
    let missing = 0;
    for (const [seq, event] of events) {
      const speaks = event.kind === "user_message" || (event.kind === "model_response" && !event.body.continues);
      if (seq <= last && speaks && !document.getElementById(`e${seq}`)) {
        missing++;
        if (missing <= 20) add(`the page does not show event ${seq}, a ${event.kind.replace("_", " ")}`);
      }
    }
    return missing;
  };

  const run = async () => {
    say("verifying…");
    let found;
    const rows = readEvents();
    try { found = await verifyChain(rows); } catch (problem) {
      if (typeof problem !== "string") throw problem;
      say(problem, "deny");
      return;
    }
    const texts = compareTexts(found.events), missing = findMissing(found.events, Number(document.body.dataset.shown) || Infinity);
    const { masked, erased } = found.kept;
    const holds = `chain holds: ${plural(found.count, "event")}, head ${found.count}:${found.head}`;
    if (texts.different || missing) say(`${holds}; but the page shows something else than its events say`, "deny");
    else say(holds, "allow");
    add(`${plural(texts.same, "text")} on this page compared with the events: ${texts.different ? `${texts.different} differ` : "all the same"}${texts.skipped ? `; ${texts.skipped} could not be compared` : ""}`);
    if (masked) add(`${plural(masked, "event")} masked: the recorded hash stands, and the event after each vouches for it`);
    if (erased) add(`${plural(erased, "event")} erased: only the hash is left, and the event after each vouches for it`);
    if (rows.at(-1)[3]) add("the last event is not as it was recorded, and no event after it vouches for its hash");
    const last = found.events.get(found.count);
    add(last?.kind === "session_ended" && last.body.events === found.count ? "the last event ends the session" : "the session has no end here: whether events followed cannot be told from this file");
    add(`hashes computed by ${subtle ? "the browser (WebCrypto)" : "the script of this file"}`);
    offerCheck(rows);
  };

  const offerCheck = (rows) => {
    const form = document.getElementById("check"), said = document.getElementById("compared");
    if (!form || !said) return;
    form.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const [, seq, hash] = /^\s*([0-9]{1,15}):([0-9a-fA-F]{64})\s*$/.exec(form.elements.head.value) ?? [];
      const row = rows[Number(seq) - 1];
      if (!seq) said.textContent = "that is no head; write it as foregate audit verify prints it";
      else if (!row) said.textContent = `events are missing here: the chain ends at ${rows.length}`;
      else said.textContent = row[2] === hash.toLowerCase() ? `event ${seq} is the one that was kept` : `event ${seq} is not the one that was kept: the log was written anew`;
    });
  };

  run().catch((error) => say(`nothing could be verified: ${error}`, "deny"));
})();
