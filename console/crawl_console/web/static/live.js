// Keeps the page as the server would make it now: each message of /events has it fetched again, and what differs is
// changed in place. Nothing is drawn here. Without this script a reload shows the same.
"use strict";

const PAUSE = 1000; // milliseconds between two fetches
const SILENCE = 40000; // after which the server is taken for lost: it says each 15 s that it is alive
const KEEPS = ["open"]; // attributes that belong to the reader
let waits = false;
let busy = false;
let heard = Date.now(); // when the server last said something
let lost = ""; // why it says nothing; empty: it does
const sent = new WeakSet(); // forms whose answer is awaited

function say(text) {
  const place = document.getElementById("link");
  if (place && place.textContent !== text) place.textContent = text;
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id || "" : "";
}

function isAlike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
}

// Give `old` the attributes of `fresh`.
function copyAttributes(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !KEEPS.includes(name)) old.removeAttribute(name);
  }
}

// Make `old` like `fresh`. Fields, and what the reader types in them, stay as they are.
function update(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE || old.matches("input:not([type=hidden]), textarea, select")) return;
  copyAttributes(old, fresh);
  if (old.isEqualNode(fresh)) return;
  updateChildren(old, fresh);
}

function updateChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.childNodes) {
    const key = keyOf(child);
    if (key) keyed.set(key, child);
  }
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = keyOf(wanted);
    const known = key ? keyed.get(key) : undefined;
    if (known && isAlike(known, wanted)) {
      if (known === place) place = place.nextSibling;
      else if (!known.contains(document.activeElement)) old.insertBefore(known, place);
      update(known, wanted);
    } else if (!key && place && isAlike(place, wanted)) {
      const same = place;
      place = place.nextSibling;
      update(same, wanted);
    } else {
      old.insertBefore(document.importNode(wanted, true), place);
    }
  }
  const left = new Set([...fresh.childNodes].map(keyOf).filter(Boolean));
  while (place) {
    const next = place.nextSibling;
    const key = keyOf(place);
    if (!key || !left.has(key)) place.remove();
    place = next;
  }
}

async function refresh() {
  if (busy || document.hidden) {
    waits = true;
    return;
  }
  busy = true;
  waits = false;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (answer.redirected) {
      lost = "logged out, reload to log in";
      judge();
    } else if (answer.headers.get("content-type")?.startsWith("text/html")) {
      replacePage(await answer.text());
      judge();
    }
  } catch {
    lost = "no answer, trying again";
    judge();
  }
  setTimeout(() => {
    busy = false;
    if (waits) refresh();
  }, PAUSE);
}

// Put the page that answers in the place of this one, which keeps its scrolling and its fields.
function replacePage(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  for (const name of ["header", "main"]) {
    const old = document.querySelector(name);
    const fresh = page.querySelector(name);
    const link = fresh?.querySelector("#link");
    if (link) link.textContent = document.getElementById("link").textContent;
    if (old && fresh) update(old, fresh);
  }
  document.title = page.title;
}

// What went wrong with an order stands until the next one; the parts that move would take it away.
function complain(text) {
  let place = document.getElementById("refused");
  if (!place) {
    place = document.createElement("p");
    place.id = "refused";
    place.className = "bad";
    place.setAttribute("role", "alert");
    document.body.append(place);
  }
  place.textContent = text;
}

// An order is given without leaving the page, where its answer is this page; else the browser goes there.
async function order(event) {
  const form = event.target;
  if (form.method !== "post" || !form.getAttribute("action").includes("/orders/")) return;
  event.preventDefault();
  if (sent.has(form)) return;
  sent.add(form);
  complain("");
  try {
    const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
    const there = new URL(answer.url);
    if (answer.ok && answer.redirected && there.pathname === location.pathname) {
      const text = await answer.text();
      history.replaceState(null, "", answer.url);
      replacePage(text);
    } else if (answer.redirected) {
      location.assign(answer.url);
    } else {
      const problem = answer.headers.get("content-type")?.startsWith("application/json") ? (await answer.json()).error : "";
      complain(`✗ ${problem || `the order was answered with ${answer.status}`}`);
    }
  } catch {
    complain("✗ no answer to the order: the log says whether it was carried out");
  }
  sent.delete(form);
}

// The arrows go from row to row of the table that has the focus, and along the pages.
function move(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const row = event.target.closest?.("tbody tr");
  if (!step || !row || event.target.matches("input, textarea, select")) return;
  const links = [...row.parentNode.querySelectorAll("th a")];
  const wanted = links[links.indexOf(row.querySelector("th a")) + step];
  if (wanted) {
    event.preventDefault();
    wanted.focus();
  }
}

// Say whether the page shows what is now: dimmed, with its age, if not.
function judge() {
  const seconds = Math.round((Date.now() - heard) / 1000);
  const isOld = lost || seconds > SILENCE / 1000;
  document.body.classList.toggle("stale", isOld);
  if (isOld) {
    const since = new Date(heard).toLocaleTimeString();
    say(`✗ ${seconds} s old: ${lost || "no answer"}, last read at ${since}`);
  } else {
    say(document.getElementById("error") ? "✗ not readable" : "● live");
  }
}

function hear() {
  heard = Date.now();
  lost = "";
  judge();
}

function listen(path) {
  const source = new EventSource(path);
  let isFirst = true;
  source.onopen = () => {
    hear();
    if (!isFirst) refresh();
    isFirst = false;
  };
  source.onerror = () => {
    lost = source.readyState === EventSource.CLOSED ? "not live, reload" : "no answer, connecting again";
    judge();
  };
  source.addEventListener("alive", hear);
  for (const name of ["status", "log"]) {
    source.addEventListener(name, () => {
      hear();
      refresh();
    });
  }
  setInterval(judge, 1000);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && waits) refresh();
  });
  addEventListener("pagehide", () => source.close());
}

document.addEventListener("keydown", move);
document.addEventListener("submit", order);
if (document.body.dataset.events) listen(document.body.dataset.events);
