// The viewer of cases: the list, the controls, and links to cases. Data enter as text only.

const indexOf = (figure) => {
  figure.index ||= JSON.parse(figure.querySelector("script.index").textContent);
  return figure.index;
};
const fill = (select, options) => { // what was chosen stays, if it still can be
  const before = select.value;
  select.replaceChildren(...options.map(([value, text]) => Object.assign(element("option", text), { value })));
  if (options.some(([value]) => value === before)) select.value = before;
};

function startViewer(figure) {
  if (figure.show) return;
  const index = indexOf(figure), find = (selector) => figure.querySelector(selector);
  const names = ["view", "mode", "against", "colour", "image", "preset", "map", "sides", "width", "level", "opacity"];
  const controls = Object.fromEntries(names.map((name) => [name, find(`.${name} :is(select, input)`)]));
  const { view, mode, against, colour, image, preset, map, sides, width, level, opacity } = controls;
  const panes = new Panes(figure, index, controls), slider = find(".slices input");
  index.layers.forEach((layer) => { if (!layer.shown) panes.off.add(`layer ${layer.name}`); });
  let shown = -1;

  async function showCase(at) {
    shown = at;
    find(".missing").hidden = true;
    if (!await panes.take(figure.querySelectorAll("script.case")[at].textContent)) return;
    find("h3").textContent = index.cases[at].id;
    find(".tools dl").replaceChildren(...index.cases[at].facts.flatMap(
      ([name, value]) => [element("dt", name), element("dd", value)]));
    buttons.forEach((button, k) => { button.ariaCurrent = k === at ? "true" : null; });
    keepInSight(buttons[at].parentElement);
    figure.querySelectorAll(".layers label").forEach((label, k) => {
      const { name } = index.layers[k];
      label.querySelector(".badge").textContent = panes.badge(name);
      label.classList.toggle("absent", !panes.data.drawnBy.has(name));
    });
    const { planes, pictures } = panes.data, parts = ["", "red", "green", "blue"];
    const three = planes.length > 1 ? [["three", "three planes"]] : [];
    fill(view, [...planes.map(({ name }, k) => [String(k), name]), ...three]);
    panes.active = Number(view.value) || 0;
    fill(image, pictures.flatMap(({ name, colours }, k) => parts.slice(0, colours ? 4 : 1).map(
      (part, channel) => [`${k} ${channel - 1}`, part || name])));
    find(".view").hidden = find(".slices").hidden = planes.length < 2;
    find(".image").hidden = image.options.length < 2;
    [".preset", ".width", ".level"].forEach((name) => { find(name).hidden = !pictures.length; });
    usePicture(true);
    await paint();
  }

  function paint() {
    const { data, plane } = panes, axis = plane.order[0], count = data.shape[axis];
    const [first, step] = data.numbers[axis], part = axis === 0 && count < data.slices;
    slider.max = count - 1;
    slider.value = panes.slice();
    find("output").textContent = `${plane.name} slice ${first + step * panes.place[axis]} ` +
      `(${panes.slice() + 1} of ${count}${part ? ` here, ${data.slices} in the file` : ""})`;
    return panes.paint();
  }

  function moveSlice(number) {
    const axis = panes.plane.order[0];
    panes.place[axis] = panes.slice(between(0, number, panes.data.shape[axis] - 1));
    paint();
  }

  // Window: the values that are black and white ---------------------------------------------------
  function usePicture(next = false) { // what was set by hand stays in the next case, if it shows anything
    if (!panes.picture) return;
    const { windows, knots } = panes.picture, [low, high] = [knots[0][0], knots.at(-1)[0]];
    const set = next && preset.selectedIndex >= 0 && !preset.value;
    const stays = set && panes.window[0] < high && panes.window[1] > low;
    fill(preset, [...Object.keys(windows).map((name) => [name, name]), ["", "as set"]]);
    if (!preset.value && !stays) preset.selectedIndex = 0;
    Object.assign(level, { min: low, max: high });
    Object.assign(width, { min: (high - low) / 200, max: high - low });
    setWindow(stays ? panes.window : windows[preset.value]);
  }

  function setWindow([low, high]) {
    panes.window = [low, high];
    [width.value, level.value] = [high - low, (low + high) / 2];
    const [wide, middle] = [high - low, (low + high) / 2].map((value) => Number(value.toPrecision(4)));
    find(".width").title = find(".level").title = `width ${wide}, level ${middle}`;
  }

  function windowTo(wide, middle) {
    const half = between(Number(width.min), wide, Number(width.max)) / 2;
    const at = between(Number(level.min), middle, Number(level.max));
    preset.value = "";
    setWindow([at - half, at + half]);
    paint();
  }

  function tone(wider, higher) {
    if (!panes.picture) return;
    const all = level.max - level.min, [low, high] = panes.window;
    windowTo(high - low + wider * all, (low + high) / 2 + higher * all);
  }

  // The list of cases -----------------------------------------------------------------------------
  function keepInSight(item) {
    const list = item.parentElement;
    if (item.offsetTop < list.scrollTop) list.scrollTop = item.offsetTop;
    const below = item.offsetTop + item.offsetHeight - list.clientHeight;
    if (below > list.scrollTop) list.scrollTop = below;
  }

  function step(way) {
    let at = shown + way;
    while (buttons[at] && buttons[at].parentElement.hidden) at += way;
    if (buttons[at]) showCase(at);
  }

  function searchCases() {
    const text = find(".cases input").value.trim(), items = [...figure.querySelectorAll(".cases li")];
    items.forEach((item) => { item.hidden = !matches(item.textContent, text); });
    const left = items.filter((item) => !item.hidden).length;
    find(".cases .count").textContent = text ? `${left} of ${items.length} cases` : "";
  }

  function listed(made, id, facts = []) {
    const item = element("li"), name = element("span");
    id.split(/(?<=[_./-])/).forEach((part) => name.append(part, element("wbr"))); // lines break there
    made.append(name);
    made.title = id;
    if (facts.length) made.append(Object.assign(element("small", facts[0][1]), { title: facts[0][0] }));
    item.append(made);
    find(".cases ul").append(item);
    return made;
  }

  const buttons = index.cases.map(({ id, facts }, at) => {
    const button = listed(Object.assign(element("button"), { type: "button" }), id, facts);
    button.addEventListener("click", () => showCase(at));
    return button;
  });
  index.elsewhere.forEach(([id, href]) => listed(Object.assign(element("a"), { href }), id));
  find(".cases").hidden = index.cases.length + index.elsewhere.length < 2;
  find(".cases input").addEventListener("input", searchCases);

  // Labels, classes, maps -------------------------------------------------------------------------
  function addToggle(place, key, shown, swatch) {
    const label = Object.assign(element("label"), { title: shown });
    const box = Object.assign(element("input"), { type: "checkbox", checked: !panes.off.has(key) });
    box.addEventListener("change", () => {
      panes.off[box.checked ? "delete" : "add"](key);
      paint();
    });
    label.append(box, swatch, element("span", shown), Object.assign(element("small"), { className: "badge" }));
    place.append(label);
  }

  function allButton() {
    const button = Object.assign(element("button", "all or none"), { type: "button" });
    button.addEventListener("click", () => {
      const boxes = [...figure.querySelectorAll(".layers input")], wanted = !boxes.some((box) => box.checked);
      boxes.filter((box) => box.checked !== wanted).forEach((box) => box.click());
    });
    return button;
  }

  function showLegend() {
    const laid = index.maps.find(({ name }) => name === map.value), base = against.value;
    const { differ, more, missed } = index.differ;
    const other = index.classes.length > 2 ? { "another class": differ } : {};
    const than = base ? shownName(base) : "the others shown";
    const differences = base || sides.checked ? { [`more than ${than}`]: more, [`less than ${than}`]: missed, ...other }
      : { "those shown differ": differ };
    const legend = { ...(laid ? laid.legend : {}), ...(mode.value === "difference" ? differences : {}) };
    find(".opacity").hidden = !laid;
    find(".against").hidden = mode.value !== "difference";
    find(".colour").hidden = mode.value === "difference" || index.classes.length < 3;
    figure.dataset.colour = colour.value;
    find(".legend").replaceChildren(...Object.entries(legend).map(([text, hue]) => {
      const item = element("li");
      item.append(squareOf(hue), element("span", text));
      return item;
    }));
  }

  const useMap = () => {
    opacity.value = (index.maps.find(({ name }) => name === map.value) || { opacity: 0.7 }).opacity;
  };
  index.layers.forEach((layer) => addToggle(find(".layers"), `layer ${layer.name}`, shownName(layer.name), swatchOf(layer)));
  index.classes.slice(1).forEach(([name, hue]) => addToggle(find(".classes"), `class ${name}`, name, squareOf(hue)));
  if (index.layers.length > 5) find(".layers legend").after(allButton());
  fill(map, [["", "none"], ...index.maps.map(({ name }) => [name, name])]);
  fill(against, [["", "each other"], ...index.layers.map(({ name }) => [name, shownName(name)])]);
  map.value = (index.maps.find((one) => one.shown) || { name: "" }).name;
  useMap();
  find(".maps").hidden = !index.maps.length;
  find(".classes").hidden = index.classes.length < 3;
  [".layers", ".mode", ".sides", "[data-zoom=labels]"].forEach((name) => { find(name).hidden = !index.layers.length; });

  // Controls --------------------------------------------------------------------------------------
  const changed = (input, act = () => {}) => input.addEventListener(
    input.matches("select, [type=checkbox]") ? "change" : "input", () => { act(); showLegend(); paint(); });
  [mode, against, colour, sides, opacity].forEach((input) => changed(input));
  changed(map, useMap);
  changed(view, () => { panes.active = Number(view.value) || 0; });
  changed(image, usePicture);
  changed(preset, () => { if (preset.value) setWindow(panes.picture.windows[preset.value]); });
  [width, level].forEach((input) =>
    input.addEventListener("input", () => windowTo(Number(width.value), Number(level.value))));
  slider.addEventListener("input", () => moveSlice(Number(slider.value)));
  const zooms = { fit: (node) => panes.setZoom(node.pane.plane, 1), labels: (node) => panes.zoomToLabels(node) };
  const zoom = (kind) => new Map([...panes.node.children].map((node) => [node.pane.plane, node])).forEach(
    zooms[kind] || ((node) => panes.zoomBy(node, Number(kind))));
  find(".zooms").addEventListener("click", ({ target }) => { if (target.dataset.zoom) zoom(target.dataset.zoom); });
  find(".desk").addEventListener("keydown", (event) => {
    if (event.target.matches("input[type=search], select, label input[type=range]")) return;
    const keys = { ArrowUp: () => step(-1), ArrowDown: () => step(1),
      ArrowLeft: () => moveSlice(panes.slice() - 1), ArrowRight: () => moveSlice(panes.slice() + 1),
      "+": () => zoom("1.4"), "-": () => zoom("0.7"), 0: () => zoom("fit") };
    if (!keys[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  startPointer(panes, find(".stage"), paint, tone);
  showLegend();
  find(".desk").hidden = false;
  figure.show = showCase;
  let wide = 0; // heights follow from it, so only widths matter, and only in the next frame
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (!panes.data || panes.node.clientWidth === wide) return;
    wide = panes.node.clientWidth;
    paint();
  })).observe(panes.node);
  if (buttons.length) showCase(0);
}

function squareOf(hue) {
  const mark = Object.assign(element("i"), { className: "square" });
  mark.style.background = hue;
  return mark;
}

function swatchOf(layer) {
  const mark = Object.assign(element("i"), { className: "swatch" });
  const style = !layer.dash ? "solid" : layer.dash.startsWith("2") ? "dotted" : "dashed";
  mark.style.borderTop = `3px ${style} ${layer.colour}`;
  mark.classList.toggle("edge", layer.edge);
  return mark;
}

// '#case=NAME' opens a case, on this page or on the one it is on.
async function openCase(viewers) {
  const asked = /^#case=(.*)$/s.exec(location.hash);
  if (!asked) return;
  let name = asked[1];
  try { name = decodeURIComponent(name); } catch (error) { /* it is taken as it is */ }
  for (const viewer of viewers) {
    const { cases, elsewhere } = indexOf(viewer), at = cases.findIndex(({ id }) => id === name);
    const other = elsewhere.find(([id]) => id === name);
    if (at >= 0) {
      startViewer(viewer);
      await viewer.show(at); // first it must have its height
      viewer.scrollIntoView();
      return;
    }
    if (other) {
      location.assign(other[1]);
      return;
    }
  }
}

// What a link asks for and no viewer holds is said by the first one.
function sayMissing(name) {
  const viewer = document.querySelector(".viewer");
  if (!viewer) return;
  startViewer(viewer);
  const said = viewer.querySelector(".missing");
  said.querySelector("strong").textContent = name;
  said.hidden = false;
  viewer.scrollIntoView();
}

function startViewers() {
  const viewers = [...document.querySelectorAll(".viewer")];
  const observer = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (!entry.isIntersecting) return;
    observer.unobserve(entry.target);
    startViewer(entry.target);
  }), { rootMargin: "600px 0px" });
  viewers.forEach((viewer) => observer.observe(viewer));
  setTimeout(() => viewers.forEach(startViewer), 1500); // what is printed must have been painted
  window.addEventListener("hashchange", () => openCase(viewers));
  document.addEventListener("click", (event) => { // the same link once more
    const link = event.target.closest("a");
    if (link && link.hash && link.hash === location.hash) openCase(viewers);
  });
  openCase(viewers);
}
