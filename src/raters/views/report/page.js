// The script of the report: theme, tables; viewer.js has the cases. Data enter as text only.

const element = (tag, text = "") => {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
};
const matches = (text, search) =>
  search.toLowerCase().split(/\s+/).every((word) => text.toLowerCase().includes(word));

function startTheme() {
  const button = document.querySelector("button.theme");
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  system.addEventListener("change", name);
  name();
}

function startNavigation() {
  const links = new Map([...document.querySelectorAll("nav li a")].map((a) => [a.hash.slice(1), a]));
  const seen = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) seen[entry.isIntersecting ? "add" : "delete"](entry.target.id);
    const first = [...links.keys()].find((id) => seen.has(id));
    for (const [id, link] of links) link.classList.toggle("here", id === first);
  }, { rootMargin: "-15% 0px -60% 0px" });
  document.querySelectorAll("main > section").forEach((section) => observer.observe(section));
}

// Commands break between words, not at the hyphens of an option or between it and its value; of
// other texts, options are kept whole.
function keepWhole() {
  const keep = (places, words) => document.querySelectorAll(places).forEach((place) => {
    for (const node of [...place.childNodes].filter((one) => one.nodeType === Node.TEXT_NODE)) {
      const parts = node.data.split(words);
      node.replaceWith(...parts.map((part, k) =>
        (k % 2 ? Object.assign(element("span", part), { className: "whole" }) : part)));
    }
  });
  keep("code", /(-\w \S+|\S+)/);
  keep(".actions li, .text p, figcaption, .held", /((?<=[\s(])(?:-\w [\w.-]+|--\w[\w-]*))/);
}

// Tables -----------------------------------------------------------------------------------------
// A cell is a text, a number as [text, value], or null for no value.
const shownText = (cell) => (cell === null ? "–" : Array.isArray(cell) ? cell[0] : cell);
const valueOf = (cell) => (Array.isArray(cell) ? cell[1] : cell);

function compareCells(a, b, way) {
  if (a === null || b === null) return (a === null) - (b === null); // no value: always last
  const numbers = Array.isArray(a) && Array.isArray(b);
  const order = numbers ? a[1] - b[1]
    : String(shownText(a)).localeCompare(String(shownText(b)), undefined, { numeric: true });
  return way * order;
}

function startTable(figure) {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const body = figure.querySelector("tbody");
  const heads = [...figure.querySelectorAll("th")];
  const search = figure.querySelector("input");
  const numbers = heads.map((head) => head.classList.contains("number"));
  const state = { column: -1, way: 1, picked: null, first: false };

  function show() {
    let rows = data.rows;
    const text = search.value.trim();
    if (text) rows = rows.filter((row) => matches(row.map(shownText).join(" "), text));
    if (state.column >= 0) {
      rows = [...rows].sort((a, b) => compareCells(a[state.column], b[state.column], state.way));
    }
    let shown = rows.slice(0, data.shown);
    if (state.first && !shown.includes(state.picked)) shown = [state.picked, ...shown.slice(0, -1)];
    body.replaceChildren(...shown.map((row) => tableRow(row, numbers, data.links, row === state.picked)));
    const many = (n) => n.toLocaleString("en");
    const part = rows.length > data.shown ? `first ${many(data.shown)} of ` : "";
    figure.querySelector(".count").textContent = `${part}${many(rows.length)} ` +
      `${rows.length === 1 ? "row" : "rows"}${text ? ` of ${many(data.rows.length)}` : ""}`;
  }
  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
    state.first = false;
    const again = state.column === column;
    if (again && state.way < 0) Object.assign(state, { column: -1, way: 1 });
    else Object.assign(state, { column, way: again ? -1 : 1 });
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    if (state.column >= 0) head.setAttribute("aria-sort", state.way > 0 ? "ascending" : "descending");
    show();
  }));
  search.addEventListener("input", () => {
    state.first = false;
    show();
  });
  figure.querySelector(".csv").addEventListener("click", () => saveCsv(figure.dataset.name, data));
  figure.querySelector(".bar").hidden = false;
  show();
  // Shows the row of a case or rater; says whether there is one.
  return (kind, name) => {
    const columns = data.links.flatMap((link, column) => (link === kind ? [column] : []));
    const found = data.rows.find((row) => columns.some((column) => shownText(row[column]) === name));
    if (!found) return false;
    Object.assign(state, { picked: found, first: true }); // at the top, if it is not among those shown
    search.value = "";
    show();
    body.querySelector(".picked").scrollIntoView({ block: "center" });
    return true;
  };
}

// '#rater=NAME' and '#case=NAME' open the first row of that name; viewers open the cases they have.
function startLinks(tables) {
  const open = () => {
    const asked = /^#(case|rater)=(.*)$/s.exec(location.hash);
    if (!asked) return;
    let name = asked[2];
    try { name = decodeURIComponent(name); } catch (error) { /* it is taken as it is */ }
    if (asked[1] === "case" && knownNames.viewed.has(name)) return;
    tables.some((table) => table(asked[1], name));
    if (asked[1] === "case") sayMissing(name);
  };
  window.addEventListener("hashchange", open);
  document.addEventListener("click", (event) => { // the same link once more
    const link = event.target.closest("a");
    if (link && link.hash && link.hash === location.hash) open();
  });
  open();
}

function linkTo(kind, name, text = name) {
  return Object.assign(element("a", text), { href: (kind === "sheet" ? "sheets/" : `#${kind}=`) + encodeURIComponent(name) });
}

// Raters in a text such as 'cat: ann, rater 7; dog: cy' become links.
function saidBy(text) {
  return text.split(/((?:^|; )[^:]*: |, )/).map((part, k) => {
    const name = knownNames.raters.has(part) ? part : part.replace(/^rater /, "");
    return k % 2 || !knownNames.raters.has(name) ? part : linkTo("rater", name, part);
  });
}

function tableRow(row, numbers, links, picked) {
  const line = element("tr");
  line.classList.toggle("picked", picked);
  line.append(...row.map((cell, column) => {
    const opens = ["case", "sheet"].includes(links[column]) ? cell !== null
      : links[column] && knownNames.raters.has(shownText(cell));
    const made = element("td"), text = shownText(cell);
    made.append(...(opens ? [linkTo(links[column], text)] : links[column] === "said" ? saidBy(text) : [text]));
    made.classList.toggle("none", cell === null);
    made.classList.toggle("number", Array.isArray(cell) || (cell === null && numbers[column]));
    return made;
  }));
  return line;
}

function saveCsv(name, data) {
  const quoted = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const lines = [data.columns, ...data.rows.map((row) => row.map((cell) => valueOf(cell) ?? ""))];
  const text = lines.map((line) => line.map((value) => quoted(String(value))).join(",")).join("\n");
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([text + "\n"], { type: "text/csv" }));
  link.download = `${name}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Cases that a viewer opens, and raters; other names in columns of both are no links.
const knownNames = Object.fromEntries(Object.entries(
  JSON.parse(document.querySelector("#names").textContent)).map(([what, names]) => [what, new Set(names)]));
startTheme();
startNavigation();
keepWhole();
const tables = [...document.querySelectorAll("figure.table")].map(startTable);
startViewers();
startLinks(tables);
