"use strict";
// The script of the report: theme, tables, viewers of cases. Data enter the page as text only.

const element = (tag, text = "", of = null) => {
  const made = of ? document.createElementNS(of.namespaceURI, tag) : document.createElement(tag);
  made.textContent = text;
  return made;
};
const drawn = (tag, attributes, svg) => {
  const made = element(tag, "", svg);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
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
  const state = { column: -1, way: 1, picked: null };

  function show() {
    let rows = data.rows;
    const text = search.value.trim();
    if (text) rows = rows.filter((row) => matches(row.map(shownText).join(" "), text));
    if (state.column >= 0) {
      rows = [...rows].sort((a, b) => compareCells(a[state.column], b[state.column], state.way));
    }
    let shown = rows.slice(0, data.shown);
    if (state.picked && !shown.includes(state.picked)) shown = [state.picked, ...shown];
    body.replaceChildren(...shown.map((row) => tableRow(row, numbers, data.links, row === state.picked)));
    const many = (n) => n.toLocaleString("en");
    const part = rows.length > data.shown ? `first ${many(data.shown)} of ` : "";
    figure.querySelector(".count").textContent = `${part}${many(rows.length)} ` +
      `${rows.length === 1 ? "row" : "rows"}${text ? ` of ${many(data.rows.length)}` : ""}`;
  }
  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
    const again = state.column === column;
    if (again && state.way < 0) Object.assign(state, { column: -1, way: 1 });
    else Object.assign(state, { column, way: again ? -1 : 1 });
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    if (state.column >= 0) head.setAttribute("aria-sort", state.way > 0 ? "ascending" : "descending");
    show();
  }));
  search.addEventListener("input", show);
  figure.querySelector(".csv").addEventListener("click", () => saveCsv(figure.dataset.name, data));
  figure.querySelector(".bar").hidden = false;
  show();
  // Shows the row of a case or rater; says whether there is one.
  return (kind, name) => {
    const columns = data.links.flatMap((link, column) => (link === kind ? [column] : []));
    const found = data.rows.find((row) => columns.some((column) => shownText(row[column]) === name));
    if (!found) return false;
    state.picked = found;
    show();
    body.querySelector(".picked").scrollIntoView({ block: "center" });
    return true;
  };
}

// '#rater=NAME' and '#case=NAME' open the first row of that name; viewers open the cases they have.
function startLinks(tables) {
  const viewed = new Set(JSON.parse(document.querySelector("#viewed").textContent).cases_in_viewers);
  const open = () => {
    const asked = /^#(case|rater)=(.*)$/s.exec(location.hash);
    if (!asked) return;
    let name = asked[2];
    try { name = decodeURIComponent(name); } catch (error) { /* it is taken as it is */ }
    if (asked[1] === "case" && viewed.has(name)) return;
    tables.some((table) => table(asked[1], name));
  };
  window.addEventListener("hashchange", open);
  document.addEventListener("click", (event) => { // the same link once more
    const link = event.target.closest("a");
    if (link && link.hash && link.hash === location.hash) open();
  });
  open();
}

function tableRow(row, numbers, links, picked) {
  const line = element("tr");
  line.classList.toggle("picked", picked);
  line.append(...row.map((cell, column) => {
    const opens = links[column] && !["–", "reference", "all raters"].includes(shownText(cell));
    const made = element("td", opens ? "" : shownText(cell));
    if (opens) {
      const link = element("a", shownText(cell));
      link.href = `#${links[column]}=${encodeURIComponent(shownText(cell))}`;
      made.append(link);
    }
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

// Viewers ----------------------------------------------------------------------------------------
function startViewer(figure) {
  if (figure.dataset.started) return;
  figure.dataset.started = "yes";
  const index = JSON.parse(figure.querySelector("script.index").textContent);
  const cases = figure.querySelectorAll("script.case");
  const find = (selector) => figure.querySelector(selector);
  const svg = find(".stage svg"), group = svg.firstElementChild, letters = svg.lastElementChild;
  const slider = find(".slices input"), opacity = find(".opacity input"), select = find("select");
  const state = { at: -1, slice: 0, data: null, off: new Set(), zoom: false };
  index.layers.forEach((layer) => { if (!layer.shown) state.off.add(`layer ${layer.name}`); });

  function showCase(at) {
    state.at = at;
    state.data = JSON.parse(cases[at].textContent); // pictures are decoded when they are shown
    state.slice = state.data.start;
    slider.max = state.data.slices.length - 1;
    find(".slices").hidden = state.data.slices.length < 2;
    find("h3").textContent = index.cases[at].id;
    find(".tools dl").replaceChildren(...index.cases[at].facts.flatMap(
      ([name, value]) => [element("dt", name), element("dd", value)]));
    for (const [place, button] of buttons.entries()) {
      if (place === at) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    keepInSight(buttons[at].parentElement);
    const drawnBy = new Set(state.data.slices.flatMap((slice) => Object.keys(slice.outlines)));
    figure.querySelectorAll(".layers label").forEach((label, k) => {
      label.classList.toggle("absent", !drawnBy.has(index.layers[k].name));
      label.classList.toggle("empty", state.data.empty.includes(index.layers[k].name));
    });
    showSlice();
  }

  function showSlice() {
    const { slices, shape, aspect } = state.data;
    const slice = slices[state.slice];
    slider.value = state.slice;
    find("output").textContent = `${slice.name} (${state.slice + 1} of ${slices.length})`;
    const over = { width: shape[1], height: shape[0], preserveAspectRatio: "none" };
    const sharp = Math.max(...shape) <= 512 ? "pixelated" : "auto";
    group.setAttribute("transform", `scale(1 ${aspect})`);
    group.replaceChildren();
    if (slice.picture) {
      group.append(drawn("image", { ...over, href: slice.picture, "image-rendering": sharp }, svg));
    }
    const map = slice.maps[select.value];
    if (map) {
      group.append(drawn("image", {
        ...over, href: map, opacity: opacity.value, class: "map", "image-rendering": sharp }, svg));
    }
    const lines = drawn("g", { class: "outlines" }, svg), unlabelled = drawn("g", {}, svg);
    const shown = index.layers.filter((layer) => !state.off.has(`layer ${layer.name}`));
    shown.forEach((layer, k) => addOutlines(lines, unlabelled, layer,
      slice.outlines[layer.name] || {}, lineWidth(k, shown.length)));
    group.append(lines, unlabelled);
    showPart(lines, shape, aspect);
  }

  function addOutlines(lines, unlabelled, layer, paths, width) {
    for (const [name, d] of Object.entries(paths)) {
      if (state.off.has(`class ${name}`)) continue;
      const unknown = name === "not labelled", place = unknown ? unlabelled : lines;
      const look = { d, fill: "none", "vector-effect": "non-scaling-stroke" };
      if (layer.edge) place.append(drawn("path", { ...look, stroke: "#000", "stroke-width": width + 2 }, svg));
      place.append(drawn("path", {
        ...look, stroke: layer.colour, "stroke-width": unknown ? 1 : width,
        "stroke-dasharray": unknown ? "1 4" : layer.dash, "data-layer": layer.name }, svg));
    }
  }

  function showPart(lines, [rows, columns], aspect) {
    let box = { x: 0, y: 0, width: columns, height: rows };
    const drawnBox = lines.getBBox();
    if (state.zoom && drawnBox.width) {
      const margin = Math.max(2, 0.15 * Math.max(drawnBox.width, drawnBox.height));
      const x = Math.max(0, drawnBox.x - margin), y = Math.max(0, drawnBox.y - margin);
      box = { x, y, // never beyond the picture: that would zoom out
        width: Math.min(columns, drawnBox.x + drawnBox.width + margin) - x,
        height: Math.min(rows, drawnBox.y + drawnBox.height + margin) - y };
    }
    const part = { x: box.x, y: box.y * aspect, width: box.width, height: box.height * aspect };
    svg.setAttribute("viewBox", [part.x, part.y, part.width, part.height].join(" "));
    showLetters(part);
  }

  // The sides of the patient, at the edges of the part that is shown.
  function showLetters({ x, y, width, height }) {
    const size = 0.045 * Math.max(width, height);
    const places = [[x + 0.6 * size, y + height / 2], [x + width - 0.6 * size, y + height / 2],
      [x + width / 2, y + 0.7 * size], [x + width / 2, y + height - 0.7 * size]];
    letters.setAttribute("font-size", size);
    letters.setAttribute("stroke-width", size / 6);
    letters.replaceChildren(...state.data.letters.map((letter, k) => {
      const text = drawn("text", { x: places[k][0], y: places[k][1] }, svg);
      text.textContent = letter;
      return text;
    }));
  }

  function keepInSight(item) {
    const list = item.parentElement;
    if (item.offsetTop < list.scrollTop) list.scrollTop = item.offsetTop;
    const below = item.offsetTop + item.offsetHeight - list.clientHeight;
    if (below > list.scrollTop) list.scrollTop = below;
  }

  function step(way) {
    let at = state.at + way;
    while (buttons[at] && buttons[at].parentElement.hidden) at += way;
    if (buttons[at]) showCase(at);
  }

  function moveSlice(number) {
    state.slice = Math.min(Math.max(number, 0), state.data.slices.length - 1);
    showSlice();
  }

  function searchCases() {
    const text = find(".cases input").value.trim();
    buttons.forEach((button) => { button.parentElement.hidden = !matches(button.textContent, text); });
    const left = buttons.filter((button) => !button.parentElement.hidden).length;
    find(".cases .count").textContent = text ? `${left} of ${buttons.length} cases` : "";
  }

  const addToggle = (place, key, name, swatch) => {
    const label = element("label"), box = element("input");
    box.type = "checkbox";
    box.checked = !state.off.has(key);
    box.addEventListener("change", () => {
      state.off[box.checked ? "delete" : "add"](key);
      showSlice();
    });
    label.append(box, ...(swatch ? [swatch] : []), element("span", name));
    label.title = name;
    place.append(label);
    return box;
  };

  function allButton() {
    const button = element("button", "all or none");
    button.type = "button";
    button.addEventListener("click", () => {
      const boxes = [...figure.querySelectorAll(".layers input")];
      const wanted = !boxes.some((box) => box.checked);
      boxes.filter((box) => box.checked !== wanted).forEach((box) => box.click());
    });
    return button;
  }

  function showLegend() {
    const map = index.maps[select.selectedIndex - 1];
    find(".opacity").hidden = !map;
    find(".legend").replaceChildren(...Object.entries(map ? map.legend : {}).map(([text, colour]) => {
      const item = element("li"), mark = element("i");
      mark.style.background = colour;
      item.append(mark, element("span", text));
      return item;
    }));
  }

  const buttons = index.cases.map((one, at) => {
    const item = element("li"), button = element("button");
    button.type = "button";
    button.append(element("span", one.id));
    button.title = one.id;
    if (one.facts.length) {
      const fact = element("small", one.facts[0][1]);
      fact.title = one.facts[0][0];
      button.append(fact);
    }
    button.addEventListener("click", () => showCase(at));
    item.append(button);
    find(".cases ul").append(item);
    return button;
  });
  index.layers.forEach((layer) => {
    const box = addToggle(find(".layers"), `layer ${layer.name}`, layer.name, swatchOf(layer, svg));
    box.style.accentColor = layer.edge ? "" : layer.colour;
  });
  index.classes.forEach((name) => addToggle(find(".classes"), `class ${name}`, name));
  find(".classes").hidden = index.classes.length < 2;
  find(".layers").hidden = !index.layers.length;
  if (index.layers.length > 5) find(".layers legend").after(allButton());
  select.append(...[{ name: "" }, ...index.maps].map(({ name }) => {
    const option = element("option", name || "none");
    option.value = name;
    return option;
  }));
  select.selectedIndex = index.maps.findIndex((map) => map.shown) + 1;
  const useMap = () => {
    opacity.value = (index.maps[select.selectedIndex - 1] || { opacity: 0.7 }).opacity;
    showLegend();
  };
  useMap();
  find(".maps").hidden = !index.maps.length;
  select.addEventListener("change", () => { useMap(); showSlice(); });
  opacity.addEventListener("input", showSlice);
  slider.addEventListener("input", () => moveSlice(Number(slider.value)));
  find(".cases input").addEventListener("input", searchCases);
  find(".cases").hidden = index.cases.length < 2;
  find(".zoom").addEventListener("click", (event) => {
    state.zoom = !state.zoom;
    event.currentTarget.setAttribute("aria-pressed", state.zoom);
    showSlice();
  });
  find(".desk").addEventListener("keydown", (event) => {
    if (event.target.matches("input[type=search], select, .opacity input")) return;
    const keys = { ArrowUp: () => step(-1), ArrowDown: () => step(1),
      ArrowLeft: () => moveSlice(state.slice - 1), ArrowRight: () => moveSlice(state.slice + 1) };
    if (!keys[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  find(".desk").hidden = false;
  if (buttons.length) showCase(0);
}

// Lines that are drawn first are wider, so that those on top hide none.
const lineWidth = (place, number) =>
  1.3 + Math.min(0.8, 2.4 / Math.max(number - 1, 1)) * (number - 1 - place);

function swatchOf(layer, svg) {
  const mark = drawn("svg", { viewBox: "0 0 26 10", class: "swatch", "aria-hidden": "true" }, svg);
  const line = { d: "M2 5h22", fill: "none" };
  if (layer.edge) mark.append(drawn("path", { ...line, stroke: "#000", "stroke-width": 6 }, svg));
  mark.append(drawn("path", {
    ...line, stroke: layer.colour, "stroke-width": 3, "stroke-dasharray": layer.dash }, svg));
  return mark;
}

function startViewers() {
  const viewers = document.querySelectorAll(".viewer");
  const observer = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (!entry.isIntersecting) return;
    observer.unobserve(entry.target);
    startViewer(entry.target);
  }), { rootMargin: "600px 0px" });
  viewers.forEach((viewer) => observer.observe(viewer));
  window.addEventListener("beforeprint", () => viewers.forEach(startViewer));
}

startTheme();
startNavigation();
const tables = [...document.querySelectorAll("figure.table")].map(startTable);
startViewers();
startLinks(tables);
