"use strict";
// Pictures of the viewer: stacks of slices are decoded, cut along planes, coloured and outlined.
// Pixels are 32 bits, red in the lowest ones.

const MISSING = -1;
const rgb = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
const packed = (red, green, blue, alpha) => ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;

// Inflates base64 text; exact, where reading pixels of a canvas back may not be.
async function inflated(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new ReadableStream({ start(to) { to.enqueue(bytes); to.close(); } });
  return new Response(stream.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
}

async function pixelsOf(uri) {
  const image = new Image();
  await new Promise((done, fail) => { Object.assign(image, { onload: done, onerror: fail, src: uri }); });
  const canvas = element("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

// Where the pixels of a plane lie in a stack: the first one, and the steps down and across.
function gridOf(shape, plane, at) {
  const strides = [shape[1] * shape[2], shape[2], 1];
  const [across, down, right] = plane.order;
  const step = (axis, back) => (back ? -strides[axis] : strides[axis]);
  const first = (axis, back) => (back ? (shape[axis] - 1) * strides[axis] : 0);
  return {
    rows: shape[down], columns: shape[right],
    start: at * strides[across] + first(down, plane.flipped[1]) + first(right, plane.flipped[2]),
    down: step(down, plane.flipped[1]), right: step(right, plane.flipped[2]) };
}

function cut(values, grid) {
  const found = new values.constructor(grid.rows * grid.columns);
  for (let row = 0, k = 0; row < grid.rows; row += 1) {
    let from = grid.start + row * grid.down;
    for (let column = 0; column < grid.columns; column += 1, k += 1, from += grid.right) {
      found[k] = values[from];
    }
  }
  return { ...grid, values: found };
}

// A stack of pictures: slices are decoded when a plane needs them. Grey ones keep 8 bits.
class Stack {
  constructor(slices, grey) {
    Object.assign(this, { slices, grey, values: null, loaded: new Map() });
  }

  async load(k) {
    const { data, width, height } = await pixelsOf(this.slices[k]);
    if (!this.values) {
      this.shape = [this.slices.length, height, width];
      const size = this.slices.length * height * width;
      this.values = this.grey ? new Uint8Array(size) : new Uint32Array(size);
    }
    const pixels = new Uint32Array(data.buffer); // set() keeps the lowest 8 bits: red, of grey all
    this.values.set(pixels, k * width * height);
  }

  // `shape` is that of the labels, in which `at` counts.
  async plane(plane, at, shape) {
    const axis = plane.order[0];
    const wanted = axis === 0 ? [at] : this.slices.map((_, k) => k);
    await Promise.all(wanted.map((k) => {
      if (!this.loaded.has(k)) this.loaded.set(k, this.load(k));
      return this.loaded.get(k);
    }));
    return cut(this.values, gridOf(this.shape, plane, Math.floor(((at + 0.5) * this.shape[axis]) / shape[axis])));
  }
}

// What all layers say on a plane: numbers of patterns, and the classes of each pattern by layer.
function saidOn(labels, shape, plane, at) {
  const parts = labels.map((one) => cut(one.values, gridOf(shape, plane, at)));
  const layers = labels.flatMap((one) => one.layers);
  if (parts.length < 2) return { ...parts[0], layers, patterns: labels.length ? labels[0].patterns : [] };
  const numbers = new Map(), patterns = [];
  const values = new Uint32Array(parts[0].values.length);
  for (let k = 0; k < values.length; k += 1) {
    const key = parts.map((part) => part.values[k]).join();
    if (!numbers.has(key)) {
      numbers.set(key, patterns.length);
      patterns.push(parts.flatMap((part, group) => labels[group].patterns[part.values[k]]));
    }
    values[k] = numbers.get(key);
  }
  return { ...parts[0], values, layers, patterns };
}

// The brightness of each code in a window of values.
function tones({ knots }, [low, high]) {
  const table = new Uint8ClampedArray(256);
  for (let code = 0, part = 0; code < 256; code += 1) {
    while (part < knots.length - 2 && code > knots[part + 1][1]) part += 1;
    table[code] = (255 * (valueOfCode(knots, code, part) - low)) / (high - low || 1);
  }
  return table;
}

function valueOfCode(knots, code, part = knots.findLastIndex(([, from]) => from <= code)) {
  const at = Math.min(part, knots.length - 2);
  const [[value, from], [next, to]] = [knots[at], knots[at + 1]];
  return value + ((next - value) * (code - from)) / (to - from || 1);
}

// `channel` is 0, 1 or 2 for red, green or blue alone. Colours that become grey keep to the middle
// tones: light and dark ones would turn areas into those of lighter and darker colours.
function toned(part, table, channel, greyed = false) {
  const grey = part.values instanceof Uint8Array;
  const pixels = new Uint32Array(part.values.length);
  for (let k = 0; k < pixels.length; k += 1) {
    const value = part.values[k];
    if (grey || channel !== null) {
      const tone = table[grey ? value : (value >>> (8 * channel)) & 255];
      pixels[k] = packed(tone, tone, tone, 255);
      continue;
    }
    const red = table[value & 255], green = table[(value >>> 8) & 255], blue = table[(value >>> 16) & 255];
    const tone = 64 + Math.round(0.15 * red + 0.295 * green + 0.055 * blue);
    pixels[k] = greyed ? packed(tone, tone, tone, 255) : packed(red, green, blue, 255);
  }
  return { ...part, values: pixels };
}

const coloured = (said, colours) =>
  ({ ...said, values: Uint32Array.from(said.values, (pattern) => colours[pattern]) });

// Areas: colours of the layers that marked a pixel, laid over each other.
function areaColour(marks, opacity) {
  let [red, green, blue, alpha] = [0, 0, 0, 0];
  for (const colour of marks) {
    const left = alpha * (1 - opacity), sum = left + opacity;
    [red, green, blue] = [red, green, blue].map((old, k) => (old * left + colour[k] * opacity) / sum);
    alpha = sum;
  }
  return packed(Math.round(red), Math.round(green), Math.round(blue), Math.round(255 * alpha));
}

// Differences of labels from each other (without a base), or from a base.
function differenceColour(labels, base, colours) {
  const known = labels.filter((label) => label !== MISSING);
  const paint = (name, share) => packed(...rgb(colours[name]), Math.round(217 * Math.min(1, share)));
  if (base === null) {
    if (known.length < 2) return 0;
    const most = Math.max(...known.map((label) => known.filter((other) => other === label).length));
    return paint("differ", (2 * (known.length - most)) / known.length);
  }
  if (base === MISSING || !known.length) return 0;
  const wrong = known.filter((label) => label !== base);
  const kinds = { more: 0, missed: 0, differ: 0 };
  wrong.forEach((label) => { kinds[!base ? "more" : !label ? "missed" : "differ"] += 1; });
  const [name] = Object.entries(kinds).reduce((best, one) => (one[1] > best[1] ? one : best));
  return paint(name, wrong.length / known.length);
}

// The outline of the patterns that `inside` holds, along the borders of pixels, the area on the
// right; areas that only touch at a corner stay apart.
function outlined(said, inside) {
  const { rows, columns, values } = said, wide = columns + 2;
  const there = new Uint8Array((rows + 2) * wide), seen = new Uint8Array(there.length);
  for (let row = 0, k = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1, k += 1) {
      there[(row + 1) * wide + column + 1] = inside[values[k]];
    }
  }
  const path = new Path2D();
  const ways = [1, wide, -1, -wide]; // right, down, left, up, from corner to corner
  const beside = [0, -1, -1 - wide, -wide]; // the pixel to the right of each way
  for (let first = wide + 1; first < there.length - wide; first += 1) {
    if (!there[first] || there[first - wide] || seen[first]) continue;
    let at = first, way = 0;
    path.moveTo((at % wide) - 1, Math.floor(at / wide) - 1);
    do {
      if (way === 0) seen[at] = 1;
      at += ways[way];
      let turn = 0;
      if (!there[at + beside[way]]) turn = 1;
      else if (there[at + beside[(way + 3) % 4]]) turn = 3;
      if (turn) path.lineTo((at % wide) - 1, Math.floor(at / wide) - 1);
      way = (way + turn) % 4;
    } while (at !== first || way !== 0);
    path.closePath();
  }
  return path;
}

// The rows and columns that hold patterns of `inside`, or null.
function boxOf(said, inside) {
  let [top, left, bottom, right] = [Infinity, Infinity, -1, -1];
  said.values.forEach((pattern, k) => {
    if (!inside[pattern]) return;
    const row = Math.floor(k / said.columns), column = k % said.columns;
    [top, left] = [Math.min(top, row), Math.min(left, column)];
    [bottom, right] = [Math.max(bottom, row + 1), Math.max(right, column + 1)];
  });
  return bottom < 0 ? null : { top, left, bottom, right };
}

function bitmapOf({ rows, columns, values }) {
  const canvas = element("canvas");
  [canvas.width, canvas.height] = [columns, rows];
  canvas.getContext("2d").putImageData(
    new ImageData(new Uint8ClampedArray(values.buffer), columns, rows), 0, 0);
  return canvas;
}
