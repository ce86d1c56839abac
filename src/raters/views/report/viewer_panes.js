// The panes of a viewer: what is shown of a case, laid out, zoomed and painted.

const ZOOM_MOST = 40;
const shownName = (name) => name.replace(/^[\d.,-]+$/, "rater $&"); // a number says whose it is
const between = (low, value, high) => Math.min(Math.max(value, low), high);

class Panes {
  // `controls` are the selects and inputs that say what is shown.
  constructor(figure, index, controls) {
    Object.assign(this, { figure, index, controls, node: figure.querySelector(".panes"),
      data: null, place: [0, 0, 0], active: 0, zoom: [], window: [0, 1], off: new Set(),
      asked: 0, turn: 0, kept: new Map() });
  }

  // Takes a case as the page holds it; painting must follow.
  async take(text) {
    const asked = this.asked += 1, data = JSON.parse(text);
    data.labels = await Promise.all(data.labels.map(async (one) => {
      const bytes = await inflated(one.data);
      return { ...one, values: one.patterns.length > 256 ? new Uint16Array(bytes) : new Uint8Array(bytes) };
    }));
    if (asked !== this.asked) return false; // another case was asked for in the meantime
    data.stacks = data.pictures.map((one) => new Stack(one.slices, !one.colours));
    data.mapped = Object.fromEntries(Object.entries(data.maps).map(([name, uris]) => [name, new Stack(uris)]));
    data.drawnBy = new Set(data.labels.flatMap((one) => one.layers));
    Object.assign(this, { data, place: [...data.start], active: 0, kept: new Map() });
    this.zoom = data.planes.map(() => ({ k: 1, x: 0.5, y: 0.5 }));
    return true;
  }

  get plane() { return this.data.planes[this.active]; }

  get picture() { return this.data.pictures[parseInt(this.controls.image.value, 10)]; }

  // Colours of areas mean something only on a picture without any.
  get greyed() {
    const { image, mode } = this.controls;
    return mode.value !== "outline" && image.value.endsWith(" -1") && Boolean(this.picture && this.picture.colours)
      && this.layers.some(({ name }) => this.data.drawnBy.has(name));
  }

  get three() { return this.controls.view.value === "three" && !this.controls.sides.checked; }

  get layers() { return this.index.layers.filter(({ name }) => !this.off.has(`layer ${name}`)); }

  badge(name) {
    if (!this.data.drawnBy.has(name)) return "not labelled";
    return this.data.empty.includes(name) ? "empty" : "";
  }

  // Classes that are switched off count as background.
  classOf(label) {
    return label > 0 && this.off.has(`class ${this.index.classes[label][0]}`) ? 0 : label;
  }

  colourOf(layer, label) {
    return this.controls.colour.value === "class" ? this.index.classes[label][1] : layer.colour;
  }

  // Slices count as their plane runs; places in the stack may run against it.
  slice(value = this.place[this.plane.order[0]]) {
    return this.plane.flipped[0] ? this.data.shape[this.plane.order[0]] - 1 - value : value;
  }

  wanted() {
    const { layers } = this;
    if (this.controls.sides.checked && layers.length) {
      return layers.map((layer) => ({ plane: this.active, layers: [layer], title: layer }));
    }
    return (this.three ? [0, 1, 2] : [this.active]).map((plane) => ({ plane, layers }));
  }

  async paint() {
    const turn = this.turn += 1, wanted = this.wanted();
    this.figure.dataset.greyed = this.greyed;
    this.layOut(wanted);
    const scenes = await Promise.all(wanted.map(({ plane }) => this.scene(plane)));
    if (turn !== this.turn) return;
    wanted.forEach((pane, k) => this.draw(Object.assign(this.node.children[k], { pane, scene: scenes[k] })));
    this.figure.dataset.painted = Number(this.figure.dataset.painted || 0) + 1;
  }

  keep(key, make) {
    if (this.kept.size > 300) this.kept.clear();
    if (!this.kept.has(key)) this.kept.set(key, make());
    return this.kept.get(key);
  }

  // Everything of a plane at the present place: picture, map, and what everyone said.
  async scene(number) {
    const { data, controls } = this, plane = data.planes[number], at = this.place[plane.order[0]];
    const [which, channel] = controls.image.value.split(" ").map(Number);
    const stack = data.stacks[which], laid = data.mapped[controls.map.value], where = `${number} ${at}`;
    const [values, map] = await Promise.all([
      stack && this.keep(`image ${which} ${where}`, () => stack.plane(plane, at, data.shape)),
      laid && this.keep(`map ${controls.map.value} ${where}`,
        async () => bitmapOf(await laid.plane(plane, at, data.shape))),
    ]);
    const said = data.labels.length
      ? this.keep(`said ${where}`, () => saidOn(data.labels, data.shape, plane, at)) : null;
    const drawn = stack && this.keep(`tones ${controls.image.value} ${where} ${this.window} ${this.greyed}`, () =>
      bitmapOf(toned(values, tones(this.picture, this.window), channel < 0 ? null : channel, this.greyed)));
    return { where, values, drawn, map, said };
  }

  // Pixels of the labels to pixels of the screen.
  placing(node) {
    const { data } = this, { plane } = node.pane, [, down, right] = data.planes[plane].order;
    const size = [data.shape[right], data.shape[down]], unit = [data.spacing[right], data.spacing[down]];
    const { k, x, y } = this.zoom[plane], box = [node.clientWidth, node.clientHeight];
    const fit = Math.min(box[0] / (size[0] * unit[0]), box[1] / (size[1] * unit[1]));
    const scale = unit.map((one) => one * fit * k);
    return { size, unit, box, fit, scale, corner: [x, y].map((at, n) => box[n] / 2 - at * size[n] * scale[n]) };
  }

  draw(node) {
    const { pane, scene } = node, canvas = node.firstElementChild, sharp = window.devicePixelRatio || 1;
    [canvas.width, canvas.height] = [node.clientWidth * sharp, node.clientHeight * sharp];
    const context = canvas.getContext("2d"), { size, scale, corner } = this.placing(node);
    context.scale(sharp, sharp);
    const lay = (bitmap, alpha = 1, smooth = false) => {
      context.globalAlpha = alpha;
      context.imageSmoothingEnabled = smooth || scale[0] < 1;
      context.drawImage(bitmap, ...corner, size[0] * scale[0], size[1] * scale[1]);
      context.globalAlpha = 1;
    };
    if (scene.drawn) lay(scene.drawn, 1, scale[0] * size[0] < 4 * scene.drawn.width);
    if (scene.map) lay(scene.map, Number(this.controls.opacity.value));
    const layers = pane.layers.filter(({ name }) => this.data.drawnBy.has(name));
    if (layers.length && this.controls.mode.value !== "outline") {
      lay(bitmapOf(coloured(scene.said, this.patternColours(scene.said, layers))));
    }
    layers.forEach((layer, k) => this.drawLines(context, node, layer, lineWidth(k, layers.length)));
    if (this.three) this.drawCross(context, node);
  }

  patternColours(said, layers) {
    const { mode, against, sides } = this.controls, { more, missed } = this.index.differ;
    const placesOf = (some) => some.map(({ name }) => said.layers.indexOf(name));
    const places = placesOf(layers), base = said.layers.indexOf(against.value);
    const rest = placesOf(this.layers).filter((place) => place >= 0 && !places.includes(place));
    const strong = layers.length > 1 ? 0.4 : this.greyed ? 0.6 : 0.5;
    return Uint32Array.from(said.patterns, (pattern) => {
      const labels = places.map((place) => this.classOf(pattern[place]));
      if (mode.value === "difference" && sides.checked && base < 0) { // where others have more, it has less
        const others = rest.map((place) => this.classOf(pattern[place]));
        return differenceColour(others, labels[0], { ...this.index.differ, more: missed, missed: more });
      }
      if (mode.value === "difference") {
        const others = labels.filter((_, k) => places[k] !== base);
        return differenceColour(others, base < 0 ? null : this.classOf(pattern[base]), this.index.differ);
      }
      const marks = labels.flatMap((label, k) => (label > 0 ? [rgb(this.colourOf(layers[k], label))] : []));
      return areaColour(marks, strong);
    });
  }

  // Outlines of all classes; with areas and differences, only of what was not labelled.
  drawLines(context, node, layer, wide) {
    const { said, where } = node.scene, { scale, corner } = this.placing(node);
    const place = said.layers.indexOf(layer.name);
    const matrix = new DOMMatrix([scale[0], 0, 0, scale[1], ...corner]);
    for (const label of new Set(said.patterns.map((pattern) => this.classOf(pattern[place])))) {
      if (!label || (label > 0 && this.controls.mode.value !== "outline")) continue;
      const path = this.keep(`line ${where} ${layer.name} ${label}`, () =>
        outlined(said, Uint8Array.from(said.patterns, (pattern) => pattern[place] === label)));
      const line = new Path2D();
      line.addPath(path, matrix);
      const strokes = layer.edge ? [["#000", wide + 2, ""]] : [];
      strokes.push(label > 0 ? [this.colourOf(layer, label), wide, layer.dash] : [layer.colour, 1, "1 4"]);
      for (const [strokeStyle, width, dash] of strokes) {
        Object.assign(context, { strokeStyle, lineWidth: width });
        context.setLineDash(dash.split(" ").filter(Boolean).map(Number));
        context.stroke(line);
      }
    }
    context.setLineDash([]);
  }

  drawCross(context, node) {
    const { order, flipped } = this.data.planes[node.pane.plane], { scale, corner, box } = this.placing(node);
    const [x, y] = [2, 1].map((k, n) => {
      const at = this.place[order[k]], place = flipped[k] ? this.data.shape[order[k]] - 1 - at : at;
      return corner[n] + (place + 0.5) * scale[n];
    });
    context.fillStyle = "rgb(255 255 255 / 45%)";
    context.fillRect(x, 0, 1, box[1]);
    context.fillRect(0, y, box[0], 1);
  }

  // As many columns as make the pictures largest.
  layOut(wanted) {
    const { data, node } = this, most = Math.max(320, 0.78 * window.innerHeight), wide = node.clientWidth;
    const ratio = Math.max(...wanted.map(({ plane }) => {
      const [, down, right] = data.planes[plane].order;
      return (data.shape[down] * data.spacing[down]) / (data.shape[right] * data.spacing[right]);
    }));
    const sizes = wanted.map((_, k) => {
      const rows = Math.ceil(wanted.length / (k + 1)), width = wide / (k + 1);
      const height = Math.min(width * ratio, most / rows);
      return { columns: k + 1, height, shown: Math.min(width, height / ratio) };
    });
    const best = sizes.reduce((one, two) => (two.shown > one.shown ? two : one));
    node.style.gridTemplateColumns = `repeat(${best.columns}, minmax(0, 1fr))`;
    while (node.children.length > wanted.length) node.lastElementChild.remove();
    while (node.children.length < wanted.length) node.append(newPane());
    wanted.forEach(({ plane, title }, k) => {
      const pane = node.children[k], [, name, ...letters] = pane.children, badge = title && this.badge(title.name);
      pane.style.height = `${Math.max(80, best.height)}px`;
      name.textContent = title ? shownName(title.name) : wanted.length > 1 ? data.planes[plane].name : "";
      name.style.borderColor = title ? title.colour : "transparent";
      if (badge) name.append(" ", Object.assign(element("small", badge), { className: "badge" }));
      letters.forEach((letter, side) => { letter.textContent = data.planes[plane].letters[side] || ""; });
    });
  }

  // Zoom: `k` times as large as what fits, around a place that is a share of width and height.
  setZoom(plane, k, x = 0.5, y = 0.5) {
    const inside = (value) => (k > 1 ? between(0, value, 1) : 0.5);
    this.zoom[plane] = { k, x: inside(x), y: inside(y) };
    this.node.style.touchAction = k > 1 ? "none" : "manipulation";
    this.paint();
  }

  // What is at a point of the screen stays there.
  zoomBy(node, factor, point = null) {
    const { box, size, scale, corner } = this.placing(node), { plane } = node.pane;
    const before = this.zoom[plane].k, k = between(1, before * factor, ZOOM_MOST), grown = k / before;
    const [x, y] = (point || [box[0] / 2, box[1] / 2]).map((at, n) =>
      ((at - corner[n]) / scale[n] - (at - box[n] / 2) / (scale[n] * grown)) / size[n]);
    this.setZoom(plane, k, x, y);
  }

  zoomToLabels(node) {
    const { said } = node.scene, { size, unit, box, fit } = this.placing(node);
    const places = said ? this.layers.map(({ name }) => said.layers.indexOf(name)) : [];
    const found = said && boxOf(said, Uint8Array.from(said.patterns, (pattern) =>
      places.some((place) => place >= 0 && this.classOf(pattern[place]) > 0)));
    if (!found) return;
    const [wide, high] = [found.right - found.left, found.bottom - found.top];
    const margin = 2 * Math.max(2, 0.15 * Math.max(wide, high));
    const k = Math.min(box[0] / (unit[0] * (wide + margin)), box[1] / (unit[1] * (high + margin))) / fit;
    this.setZoom(node.pane.plane, between(1, k, ZOOM_MOST),
      (found.left + wide / 2) / size[0], (found.top + high / 2) / size[1]);
  }
}

// Lines that are drawn first are wider, so that those on top hide none.
const lineWidth = (place, number) =>
  1.3 + Math.min(0.8, 2.4 / Math.max(number - 1, 1)) * (number - 1 - place);

function newPane() {
  const pane = Object.assign(element("div"), { className: "pane" });
  pane.append(element("canvas"), ...["name", "left", "right", "top", "bottom"].map(
    (name) => Object.assign(element("span"), { className: name })));
  return pane;
}
