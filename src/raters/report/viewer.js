// The viewer of cases: what is shown, how, and what the controls do. Data enter as text only.

const ZOOM_MOST = 40;
const SAID_MOST = 14; // lines beside the pointer
const indexOf = (figure) => {
  figure.index ||= JSON.parse(figure.querySelector("script.index").textContent);
  return figure.index;
};

function startViewer(figure) {
  if (figure.show) return;
  const index = indexOf(figure);
  const find = (selector) => figure.querySelector(selector);
  const panes = find(".panes"), slider = find(".slices input"), opacity = find(".opacity input");
  const chosen = (name) => find(`.${name} select`);
  const [view, mode, against, colour] = ["view", "mode", "against", "colour"].map(chosen);
  const [image, preset, map] = ["image", "preset", "maps"].map(chosen);
  const width = find(".width input"), level = find(".level input"), sides = find(".sides input");
  const layerOf = new Map(index.layers.map((layer) => [layer.name, layer]));
  const state = { at: -1, data: null, place: [0, 0, 0], active: 0, zoom: [], window: [0, 1],
    off: new Set(), turn: 0, kept: new Map() };
  index.layers.forEach((layer) => { if (!layer.shown) state.off.add(`layer ${layer.name}`); });

  // Cases and slices ---------------------------------------------------------------------------
  async function showCase(at) {
    const turn = state.turn += 1;
    const data = JSON.parse(figure.querySelectorAll("script.case")[at].textContent);
    data.labels = await Promise.all(data.labels.map(async (one) => {
      const bytes = await inflated(one.data);
      return { ...one, values: one.patterns.length > 256 ? new Uint16Array(bytes) : new Uint8Array(bytes) };
    }));
    if (turn !== state.turn) return;
    data.stacks = data.pictures.map((one) => new Stack(one.slices, !one.colours));
    data.mapped = Object.fromEntries(Object.entries(data.maps).map(([k, uris]) => [k, new Stack(uris)]));
    Object.assign(state, { at, data, place: [...data.start], active: 0, kept: new Map() });
    state.zoom = data.planes.map(() => ({ k: 1, x: 0.5, y: 0.5 }));
    find("h3").textContent = index.cases[at].id;
    find(".tools dl").replaceChildren(...index.cases[at].facts.flatMap(
      ([name, value]) => [element("dt", name), element("dd", value)]));
    buttons.forEach((button, k) => button.toggleAttribute("aria-current", k === at));
    keepInSight(buttons[at].parentElement);
    const drawnBy = new Set(data.labels.flatMap((one) => one.layers));
    figure.querySelectorAll(".layers label").forEach((label, k) => {
      const { name } = index.layers[k];
      label.querySelector(".badge").textContent = badgeOf(name, drawnBy);
      label.classList.toggle("absent", !drawnBy.has(name));
    });
    fillViews(data.planes);
    fillImages(data.pictures);
    await paint();
  }

  const badgeOf = (name, drawnBy) =>
    (!drawnBy.has(name) ? "not labelled" : state.data.empty.includes(name) ? "empty" : "");

  function fillViews(planes) {
    const before = view.value;
    const three = planes.length > 1 ? [["three", "three planes"]] : [];
    fill(view, [...planes.map(({ name }, k) => [String(k), name]), ...three]);
    if ([...view.options].some((option) => option.value === before)) view.value = before;
    find(".view").hidden = find(".slices").hidden = planes.length < 2;
    state.active = Number(view.value) || 0;
  }

  function fillImages(pictures) {
    const before = image.value;
    const parts = ["", " red", " green", " blue"];
    fill(image, pictures.flatMap(({ name, colours }, k) => parts.slice(0, colours ? 4 : 1).map(
      (part, channel) => [`${k} ${channel - 1}`, part.trim() || name])));
    if ([...image.options].some((option) => option.value === before)) image.value = before;
    find(".image").hidden = image.options.length < 2;
    ["preset", "width", "level"].forEach((name) => { find(`.${name}`).hidden = !pictures.length; });
    usePicture();
  }

  const picture = () => state.data.pictures[parseInt(image.value, 10)];

  function usePicture() {
    if (!picture()) return;
    const before = preset.value, { windows, knots } = picture();
    fill(preset, [...Object.keys(windows).map((name) => [name, name]), ["", "as set"]]);
    preset.value = before in windows ? before : Object.keys(windows)[0];
    const ends = [knots[0][0], knots.at(-1)[0]], span = ends[1] - ends[0];
    Object.assign(level, { min: ends[0], max: ends[1] });
    Object.assign(width, { min: span / 200, max: span });
    setWindow(windows[preset.value]);
  }

  function setWindow([low, high], named = true) {
    state.window = [low, high];
    [width.value, level.value] = [high - low, (low + high) / 2];
    const shown = (value) => Number(value.toPrecision(4)).toString();
    find(".width").title = find(".level").title = `width ${shown(high - low)}, level ${shown((low + high) / 2)}`;
    if (!named) preset.value = "";
  }

  function windowTo(wide, middle) {
    const least = Number(width.min), [low, high] = [Number(level.min), Number(level.max)];
    const [w, m] = [Math.min(Math.max(wide, least), high - low), Math.min(Math.max(middle, low), high)];
    setWindow([m - w / 2, m + w / 2], false);
    paint();
  }

  // Slices of a plane count as its direction runs; places in the stack may run against it.
  const sliceOf = (plane, value = state.place[plane.order[0]]) =>
    (plane.flipped[0] ? state.data.shape[plane.order[0]] - 1 - value : value);

  function moveSlice(number) {
    const plane = state.data.planes[state.active], axis = plane.order[0];
    state.place[axis] = sliceOf(plane, Math.min(Math.max(number, 0), state.data.shape[axis] - 1));
    paint();
  }

  function showSlider() {
    const { data } = state, plane = data.planes[state.active], axis = plane.order[0];
    const count = data.shape[axis], at = sliceOf(plane), [first, step] = data.numbers[axis];
    Object.assign(slider, { max: count - 1 });
    slider.value = at;
    const part = axis === 0 && count < data.slices ? ` here, ${data.slices} in the file` : "";
    find("output").textContent =
      `${plane.name} slice ${first + step * state.place[axis]} (${at + 1} of ${count}${part})`;
  }

  // Painting -----------------------------------------------------------------------------------
  const shownLayers = () => index.layers.filter(({ name }) => !state.off.has(`layer ${name}`));
  const classOf = (label) => // classes that are off count as background
    (label > 0 && state.off.has(`class ${index.classes[label][0]}`) ? 0 : label);
  const colourOf = (layer, label) => (colour.value === "class" ? index.classes[label][1] : layer.colour);

  function wantedPanes() {
    const layers = shownLayers();
    if (sides.checked && layers.length) {
      return layers.map((layer) => ({ plane: state.active, layers: [layer], title: layer }));
    }
    const planes = view.value === "three" ? [0, 1, 2] : [state.active];
    return planes.map((plane) => ({ plane, layers }));
  }

  async function paint() {
    const turn = state.turn += 1, wanted = wantedPanes();
    layOut(wanted);
    const scenes = await Promise.all(wanted.map((pane) => sceneOf(pane.plane)));
    if (turn !== state.turn) return;
    wanted.forEach((pane, k) => draw(Object.assign(panes.children[k], { pane, scene: scenes[k] })));
    showSlider();
    figure.dataset.painted = Number(figure.dataset.painted || 0) + 1;
  }

  async function sceneOf(number) {
    const { data } = state, plane = data.planes[number], at = state.place[plane.order[0]];
    const [which, channel] = image.value.split(" ").map(Number);
    const stack = data.stacks[which], laid = data.mapped[map.value];
    const kept = async (key, make) => {
      if (state.kept.size > 300) state.kept.clear();
      if (!state.kept.has(key)) state.kept.set(key, await make());
      return state.kept.get(key);
    };
    const where = `${number} ${at}`;
    const [values, shownMap, said] = await Promise.all([
      stack && kept(`image ${which} ${where}`, () => stack.plane(plane, at, data.shape)),
      laid && kept(`map ${map.value} ${where}`, async () => bitmapOf(await laid.plane(plane, at, data.shape))),
      data.labels.length && kept(`said ${where}`, () => saidOn(data.labels, data.shape, plane, at)),
    ]);
    const key = `tones ${where} ${image.value} ${state.window}`;
    const toneTable = stack && tones(picture(), state.window);
    const drawn = stack && await kept(key, () => bitmapOf(toned(values, toneTable, channel < 0 ? null : channel)));
    return { where, values, drawn, map: shownMap, said: said || null };
  }

  // Pixels of the labels to pixels of the screen.
  function placing(node, number = node.pane.plane) {
    const { data } = state, [, down, right] = data.planes[number].order;
    const size = [data.shape[right], data.shape[down]], unit = [data.spacing[right], data.spacing[down]];
    const { k, x, y } = state.zoom[number], box = [node.clientWidth, node.clientHeight];
    const fit = Math.min(box[0] / (size[0] * unit[0]), box[1] / (size[1] * unit[1]));
    const scale = unit.map((one) => one * fit * k);
    return { size, unit, box, fit, scale, corner: [x, y].map((at, n) => box[n] / 2 - at * size[n] * scale[n]) };
  }

  function draw(node) {
    const { pane, scene } = node, canvas = node.firstElementChild, sharp = window.devicePixelRatio || 1;
    [canvas.width, canvas.height] = [node.clientWidth * sharp, node.clientHeight * sharp];
    const context = canvas.getContext("2d"), { size, scale, corner } = placing(node);
    context.scale(sharp, sharp);
    const lay = (bitmap, alpha = 1, smooth = false) => {
      context.globalAlpha = alpha;
      context.imageSmoothingEnabled = smooth || scale[0] < 1;
      context.drawImage(bitmap, ...corner, size[0] * scale[0], size[1] * scale[1]);
      context.globalAlpha = 1;
    };
    if (scene.drawn) lay(scene.drawn, 1, scale[0] * size[0] < 4 * scene.drawn.width);
    if (scene.map) lay(scene.map, Number(opacity.value));
    const layers = scene.said ? pane.layers.filter(({ name }) => scene.said.layers.includes(name)) : [];
    if (layers.length) {
      if (mode.value !== "outline") lay(bitmapOf(coloured(scene.said, patternColours(scene.said, layers))));
      layers.forEach((layer, k) => drawLines(context, node, layer, lineWidth(k, layers.length)));
    }
    if (view.value === "three" && !sides.checked) drawCross(context, node);
  }

  function patternColours(said, layers) {
    const places = layers.map(({ name }) => said.layers.indexOf(name));
    const base = said.layers.indexOf(against.value), strong = layers.length > 1 ? 0.4 : 0.5;
    return Uint32Array.from(said.patterns, (pattern) => {
      const labels = places.map((place) => classOf(pattern[place]));
      if (mode.value === "difference") {
        return differenceColour(labels, base < 0 ? null : classOf(pattern[base]), index.differ);
      }
      const marks = labels.flatMap((label, k) => (label > 0 ? [rgb(colourOf(layers[k], label))] : []));
      return areaColour(marks, strong);
    });
  }

  // Outlines of all classes; of areas and differences only of what was not labelled.
  function drawLines(context, node, layer, wide) {
    const { said, where } = node.scene, { scale, corner } = placing(node);
    const place = said.layers.indexOf(layer.name);
    const matrix = new DOMMatrix([scale[0], 0, 0, scale[1], ...corner]);
    const labels = new Set(said.patterns.map((pattern) => classOf(pattern[place])));
    for (const label of labels) {
      if (!label || (label > 0 && mode.value !== "outline")) continue;
      const key = `line ${where} ${layer.name} ${label}`;
      if (!state.kept.has(key)) {
        const inside = Uint8Array.from(said.patterns, (pattern) => pattern[place] === label);
        state.kept.set(key, outlined(said, inside));
      }
      const line = new Path2D();
      line.addPath(state.kept.get(key), matrix);
      const strokes = layer.edge ? [["#000", wide + 2, ""]] : [];
      strokes.push(label > 0 ? [colourOf(layer, label), wide, layer.dash] : [layer.colour, 1, "1 4"]);
      for (const [style, lineWidth, dash] of strokes) {
        Object.assign(context, { strokeStyle: style, lineWidth });
        context.setLineDash(dash.split(" ").filter(Boolean).map(Number));
        context.stroke(line);
      }
    }
    context.setLineDash([]);
  }

  function drawCross(context, node) {
    const plane = state.data.planes[node.pane.plane], { scale, corner, box } = placing(node);
    const [x, y] = [2, 1].map((k) => {
      const axis = plane.order[k], at = state.place[axis];
      return (plane.flipped[k] ? state.data.shape[axis] - 1 - at : at) + 0.5;
    });
    context.strokeStyle = "rgb(255 255 255 / 45%)";
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(corner[0] + x * scale[0], 0);
    context.lineTo(corner[0] + x * scale[0], box[1]);
    context.moveTo(0, corner[1] + y * scale[1]);
    context.lineTo(box[0], corner[1] + y * scale[1]);
    context.stroke();
  }

  // As many columns as make the pictures largest.
  function layOut(wanted) {
    const { data } = state, most = Math.max(320, 0.78 * window.innerHeight), wide = panes.clientWidth;
    const ratio = Math.max(...wanted.map(({ plane }) => {
      const [, down, right] = data.planes[plane].order;
      return (data.shape[down] * data.spacing[down]) / (data.shape[right] * data.spacing[right]);
    }));
    const sizes = wanted.map((_, k) => {
      const columns = k + 1, rows = Math.ceil(wanted.length / columns);
      return { columns, height: Math.min((wide / columns) * ratio, most / rows) };
    });
    const best = sizes.reduce((one, two) =>
      (Math.min(wide / two.columns, two.height / ratio) > Math.min(wide / one.columns, one.height / ratio) ? two : one));
    panes.style.gridTemplateColumns = `repeat(${best.columns}, minmax(0, 1fr))`;
    while (panes.children.length > wanted.length) panes.lastElementChild.remove();
    while (panes.children.length < wanted.length) panes.append(newPane());
    wanted.forEach(({ plane, title }, k) => {
      const node = panes.children[k], [, name, ...letters] = node.children;
      node.style.height = `${Math.max(80, best.height)}px`;
      name.textContent = title ? title.name : wanted.length > 1 ? data.planes[plane].name : "";
      name.style.borderColor = title ? title.colour : "transparent";
      const badge = title && badgeOf(title.name, new Set(data.labels.flatMap((one) => one.layers)));
      if (badge) name.append(" ", Object.assign(element("small", badge), { className: "badge" }));
      letters.forEach((letter, side) => { letter.textContent = data.planes[plane].letters[side] || ""; });
    });
  }

  function newPane() {
    const node = element("div");
    node.className = "pane";
    node.append(element("canvas"), ...["name", "left", "right", "top", "bottom"].map(
      (name) => Object.assign(element("span"), { className: name })));
    return node;
  }

  // Zoom, and what is below the pointer --------------------------------------------------------
  function zoomBy(node, factor, point = null) {
    const { box, size, scale, corner } = placing(node), zoom = state.zoom[node.pane.plane];
    const at = point || [box[0] / 2, box[1] / 2];
    const below = at.map((here, n) => (here - corner[n]) / scale[n]);
    const k = Math.min(Math.max(zoom.k * factor, 1), ZOOM_MOST), grown = k / zoom.k;
    const [x, y] = below.map((pixel, n) => (pixel - (at[n] - box[n] / 2) / (scale[n] * grown)) / size[n]);
    setZoom(node.pane.plane, k, x, y);
  }

  function setZoom(plane, k, x, y) {
    const inside = (value) => (k > 1 ? Math.min(Math.max(value, 0), 1) : 0.5);
    state.zoom[plane] = { k, x: inside(x), y: inside(y) };
    panes.style.touchAction = k > 1 ? "none" : "manipulation";
    paint();
  }

  function zoomToLabels(node) {
    const { said } = node.scene, { size, unit, box, fit } = placing(node);
    const places = shownLayers().map(({ name }) => (said ? said.layers.indexOf(name) : -1));
    const marked = said && Uint8Array.from(said.patterns, (pattern) =>
      places.some((place) => place >= 0 && classOf(pattern[place]) > 0));
    const found = said && boxOf(said, marked);
    if (!found) return;
    const [wide, high] = [found.right - found.left, found.bottom - found.top];
    const margin = 2 * Math.max(2, 0.15 * Math.max(wide, high));
    const k = Math.min(box[0] / (unit[0] * (wide + margin)), box[1] / (unit[1] * (high + margin))) / fit;
    setZoom(node.pane.plane, Math.min(Math.max(k, 1), ZOOM_MOST),
      (found.left + wide / 2) / size[0], (found.top + high / 2) / size[1]);
  }

  const pointOf = (node, event) => {
    const box = node.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const pixelAt = (node, event) => {
    const { scale, corner, size } = placing(node);
    const found = pointOf(node, event).map((at, n) => Math.floor((at - corner[n]) / scale[n]));
    return found.every((at, n) => at >= 0 && at < size[n]) ? found : null;
  };

  function say(node, event) {
    const pixel = pixelAt(node, event), box = find(".said");
    box.hidden = !pixel;
    if (!pixel) return;
    const { said, values } = node.scene, lines = [];
    if (said) {
      const pattern = said.patterns[said.values[pixel[1] * said.columns + pixel[0]]];
      const layers = shownLayers().filter(({ name }) => said.layers.includes(name));
      lines.push(...layers.map(({ name, excludes }) => {
        const label = pattern[said.layers.indexOf(name)];
        const text = label === MISSING ? "not labelled" : index.classes[label][0];
        return `${name}: ${excludes && label !== MISSING ? "not " : ""}${text}`;
      }));
    }
    if (lines.length > SAID_MOST) lines.splice(SAID_MOST, Infinity, `and ${lines.length - SAID_MOST} more`);
    if (values && values.values instanceof Uint8Array) {
      const { size } = placing(node);
      const [column, row] = pixel.map((at, n) =>
        Math.floor(((at + 0.5) * [values.columns, values.rows][n]) / size[n]));
      const value = valueOfCode(picture().knots, values.values[row * values.columns + column]);
      lines.push(`${picture().name} about ${Number(value.toPrecision(3))}`);
    }
    box.replaceChildren(...lines.map((line) => element("div", line)));
    const stage = find(".stage").getBoundingClientRect();
    const left = event.clientX - stage.left, right = left > stage.width / 2;
    box.style.left = right ? "" : `${left + 14}px`;
    box.style.right = right ? `${stage.width - left + 14}px` : "";
    box.style.top = `${event.clientY - stage.top + 14}px`;
  }

  function point(node, event) {
    const pixel = pixelAt(node, event), { plane } = node.pane, { order, flipped } = state.data.planes[plane];
    state.active = plane;
    if (pixel && view.value === "three" && !sides.checked) {
      pixel.forEach((at, n) => {
        const axis = order[2 - n];
        state.place[axis] = flipped[2 - n] ? state.data.shape[axis] - 1 - at : at;
      });
    }
    paint();
  }

  let drag = null, scrolled = 0;
  const paneOf = (event) => event.target.closest(".pane");
  panes.addEventListener("pointerdown", (event) => {
    if (event.button || !paneOf(event)) return;
    drag = { node: paneOf(event), x: event.clientX, y: event.clientY, moved: false };
  });
  panes.addEventListener("pointermove", (event) => {
    if (!drag) { if (paneOf(event)) say(paneOf(event), event); return; }
    const { node } = drag, [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.moved && Math.hypot(dx, dy) < 3) return;
    if (!drag.moved) panes.setPointerCapture(event.pointerId);
    Object.assign(drag, { x: event.clientX, y: event.clientY, moved: true });
    find(".said").hidden = true;
    if (event.shiftKey && picture()) {
      const step = (level.max - level.min) / 300;
      windowTo(Number(width.value) + dx * step, Number(level.value) + dy * step);
    } else {
      const { size, scale } = placing(node), { k, x, y } = state.zoom[node.pane.plane];
      setZoom(node.pane.plane, k, x - dx / (size[0] * scale[0]), y - dy / (size[1] * scale[1]));
    }
  });
  const drop = (event) => {
    if (drag && !drag.moved && event.type === "pointerup") point(drag.node, event);
    drag = null;
  };
  panes.addEventListener("pointerup", drop);
  panes.addEventListener("pointercancel", drop);
  panes.addEventListener("pointerleave", () => { find(".said").hidden = true; });
  window.addEventListener("scroll", () => { scrolled = Date.now(); }, { passive: true });
  panes.addEventListener("wheel", (event) => {
    const node = paneOf(event); // a page that is being scrolled goes on, and so does one zoomed out
    if (!node || Date.now() - scrolled < 250) return;
    if (event.deltaY > 0 && state.zoom[node.pane.plane].k === 1) return;
    event.preventDefault();
    zoomBy(node, Math.exp(-event.deltaY / 300), pointOf(node, event));
  }, { passive: false });

  // Lists and controls -------------------------------------------------------------------------
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

  function searchCases() {
    const text = find(".cases input").value.trim(), items = [...figure.querySelectorAll(".cases li")];
    items.forEach((item) => { item.hidden = !matches(item.textContent, text); });
    const left = items.filter((item) => !item.hidden).length;
    find(".cases .count").textContent = text ? `${left} of ${items.length} cases` : "";
  }

  const fill = (select, options) => select.replaceChildren(...options.map(
    ([value, text]) => Object.assign(element("option", text), { value })));

  function addToggle(place, key, name, swatch) {
    const label = element("label"), box = element("input");
    Object.assign(box, { type: "checkbox", checked: !state.off.has(key) });
    box.addEventListener("change", () => {
      state.off[box.checked ? "delete" : "add"](key);
      state.kept.clear();
      paint();
    });
    label.append(box, swatch, element("span", name), Object.assign(element("small"), { className: "badge" }));
    label.title = name;
    place.append(label);
  }

  const squareOf = (hue) => {
    const mark = Object.assign(element("i"), { className: "square" });
    mark.style.background = hue;
    return mark;
  };

  function allButton() {
    const button = Object.assign(element("button", "all or none"), { type: "button" });
    button.addEventListener("click", () => {
      const boxes = [...figure.querySelectorAll(".layers input")];
      const wanted = !boxes.some((box) => box.checked);
      boxes.filter((box) => box.checked !== wanted).forEach((box) => box.click());
    });
    return button;
  }

  function showLegend() {
    const laid = index.maps.find(({ name }) => name === map.value);
    const base = against.value, { differ, more, missed } = index.differ;
    const differences = base ? { [`more than ${base}`]: more, [`less than ${base}`]: missed, "another class": differ }
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

  const listed = (one, made) => {
    const item = element("li");
    made.append(element("span", one.id));
    made.title = one.id;
    if (one.facts && one.facts.length) {
      const [name, value] = one.facts[0];
      made.append(Object.assign(element("small", value), { title: name }));
    }
    item.append(made);
    find(".cases ul").append(item);
    return made;
  };
  const buttons = index.cases.map((one, at) => {
    const button = listed(one, Object.assign(element("button"), { type: "button" }));
    button.addEventListener("click", () => showCase(at));
    return button;
  });
  index.elsewhere.forEach(([id, href]) => listed({ id }, Object.assign(element("a"), { href })));
  index.layers.forEach((layer) =>
    addToggle(find(".layers"), `layer ${layer.name}`, layer.name, swatchOf(layer)));
  index.classes.slice(1).forEach(([name, hue]) =>
    addToggle(find(".classes"), `class ${name}`, name, squareOf(hue)));
  find(".classes").hidden = index.classes.length < 3;
  [".layers", ".mode", ".sides"].forEach((name) => { find(name).hidden = !index.layers.length; });
  find('[data-zoom="labels"]').hidden = !index.layers.length;
  if (index.layers.length > 5) find(".layers legend").after(allButton());
  fill(map, [["", "none"], ...index.maps.map(({ name }) => [name, name])]);
  fill(against, [["", "each other"], ...index.layers.map(({ name }) => [name, name])]);
  map.value = (index.maps.find((one) => one.shown) || { name: "" }).name;
  const useMap = () => {
    opacity.value = (index.maps.find(({ name }) => name === map.value) || { opacity: 0.7 }).opacity;
  };
  useMap();
  find(".maps").hidden = !index.maps.length;
  const changed = (input, act) => input.addEventListener(input.matches("select, [type=checkbox]") ? "change" : "input",
    () => { act(); showLegend(); paint(); });
  changed(map, useMap);
  [mode, against, colour, sides, opacity].forEach((input) => changed(input, () => {}));
  changed(view, () => { state.active = Number(view.value) || 0; });
  changed(image, usePicture);
  changed(preset, () => { if (preset.value) setWindow(picture().windows[preset.value]); });
  [width, level].forEach((input) =>
    input.addEventListener("input", () => windowTo(Number(width.value), Number(level.value))));
  slider.addEventListener("input", () => moveSlice(Number(slider.value)));
  find(".cases input").addEventListener("input", searchCases);
  find(".cases").hidden = index.cases.length + index.elsewhere.length < 2;
  const zoomActions = { fit: (node) => setZoom(node.pane.plane, 1, 0.5, 0.5), labels: zoomToLabels };
  const zoomAll = (kind) => new Map([...panes.children].map((node) => [node.pane.plane, node])).forEach(
    (node) => (zoomActions[kind] || ((one) => zoomBy(one, Number(kind))))(node));
  find(".zooms").addEventListener("click", (event) => {
    if (event.target.dataset.zoom) zoomAll(event.target.dataset.zoom);
  });
  find(".desk").addEventListener("keydown", (event) => {
    if (event.target.matches("input[type=search], select, label input[type=range]")) return;
    const move = (by) => moveSlice(sliceOf(state.data.planes[state.active]) + by);
    const keys = { ArrowUp: () => step(-1), ArrowDown: () => step(1), ArrowLeft: () => move(-1),
      ArrowRight: () => move(1), "+": () => zoomAll("1.4"), "-": () => zoomAll("0.7"), 0: () => zoomAll("fit") };
    if (!keys[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  showLegend();
  find(".desk").hidden = false;
  figure.show = showCase;
  new ResizeObserver(() => { if (state.data) paint(); }).observe(panes);
  if (buttons.length) showCase(0);
}

// Lines that are drawn first are wider, so that those on top hide none.
const lineWidth = (place, number) =>
  1.3 + Math.min(0.8, 2.4 / Math.max(number - 1, 1)) * (number - 1 - place);

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
      await viewer.show(at); // first it has its height
      viewer.scrollIntoView();
      return;
    }
    if (other) {
      location.assign(other[1]);
      return;
    }
  }
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
