// The pointer over the panes of a viewer: who said what, move, zoom, width and level, three planes.

const SAID_MOST = 14; // lines beside the pointer

const pointOf = (node, event) => {
  const box = node.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

// The pixel of the labels below the pointer, as column and row, or null.
function pixelAt(panes, node, event) {
  const { scale, corner, size } = panes.placing(node);
  const found = pointOf(node, event).map((at, n) => Math.floor((at - corner[n]) / scale[n]));
  return found.every((at, n) => at >= 0 && at < size[n]) ? found : null;
}

// Lines such as 'rater 1: grade 4', and the value of the picture.
function saidAt(panes, node, pixel) {
  const { said, values } = node.scene, lines = [];
  const layers = panes.layers.filter(({ name }) => panes.data.drawnBy.has(name));
  const pattern = said && said.patterns[said.values[pixel[1] * said.columns + pixel[0]]];
  const texts = layers.map(({ name, excludes }) => {
    const label = pattern[said.layers.indexOf(name)];
    if (label === MISSING) return "not labelled";
    return (excludes ? "not " : "") + panes.index.classes[label][0].replace(/^\d+$/, "class $&");
  });
  if (texts.length > 1 && new Set(texts).size === 1) lines.push(`all: ${texts[0]}`);
  else lines.push(...layers.map(({ name }, k) => `${shownName(name)}: ${texts[k]}`));
  if (lines.length > SAID_MOST) lines.splice(SAID_MOST, Infinity, `and ${lines.length - SAID_MOST} more`);
  if (values && values.values instanceof Uint8Array) {
    const { size } = panes.placing(node), { knots, name } = panes.picture;
    const [column, row] = pixel.map((at, n) =>
      Math.floor(((at + 0.5) * [values.columns, values.rows][n]) / size[n]));
    const value = valueOfCode(knots, values.values[row * values.columns + column]);
    lines.push(`${name} about ${Number(value.toPrecision(3))}`);
  }
  return lines;
}

// `changed` is called when the place or the active plane is another one, `tone` with changes of
// width and level as shares of all values.
function startPointer(panes, stage, changed, tone) {
  const box = stage.querySelector(".said"), paneOf = (event) => event.target.closest(".pane");
  let drag = null, scrolled = 0;

  function say(node, event) {
    const pixel = node.scene && pixelAt(panes, node, event), around = stage.getBoundingClientRect();
    box.hidden = !pixel;
    if (!pixel) return;
    box.replaceChildren(...saidAt(panes, node, pixel).map((line) => element("div", line)));
    const left = event.clientX - around.left, right = left > around.width / 2;
    box.style.left = right ? "" : `${left + 14}px`;
    box.style.right = right ? `${around.width - left + 14}px` : "";
    box.style.top = `${event.clientY - around.top + 14}px`;
  }

  // A click chooses the plane, and where the other planes cut.
  function choose(node, event) {
    const pixel = pixelAt(panes, node, event), { plane } = node.pane, { order, flipped } = panes.data.planes[plane];
    panes.active = plane;
    if (pixel && panes.three) {
      pixel.forEach((at, n) => {
        const axis = order[2 - n];
        panes.place[axis] = flipped[2 - n] ? panes.data.shape[axis] - 1 - at : at;
      });
    }
    changed();
  }

  panes.node.addEventListener("pointerdown", (event) => {
    if (!event.button && paneOf(event)) drag = { node: paneOf(event), x: event.clientX, y: event.clientY, moved: false };
  });
  panes.node.addEventListener("pointermove", (event) => {
    if (!drag) {
      if (paneOf(event)) say(paneOf(event), event);
      return;
    }
    const { node } = drag, [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.moved && Math.hypot(dx, dy) < 3) return;
    if (!drag.moved && event.isTrusted) panes.node.setPointerCapture(event.pointerId);
    Object.assign(drag, { x: event.clientX, y: event.clientY, moved: true });
    box.hidden = true;
    if (event.shiftKey) {
      tone(dx / 300, dy / 300);
    } else {
      const { size, scale } = panes.placing(node), { k, x, y } = panes.zoom[node.pane.plane];
      panes.setZoom(node.pane.plane, k, x - dx / (size[0] * scale[0]), y - dy / (size[1] * scale[1]));
    }
  });
  const drop = (event) => {
    if (drag && !drag.moved && event.type === "pointerup") choose(drag.node, event);
    drag = null;
  };
  panes.node.addEventListener("pointerup", drop);
  panes.node.addEventListener("pointercancel", drop);
  panes.node.addEventListener("pointerleave", () => { box.hidden = true; });
  window.addEventListener("scroll", () => { scrolled = Date.now(); }, { passive: true });
  panes.node.addEventListener("wheel", (event) => {
    const node = paneOf(event); // a page that is being scrolled goes on, and so does one zoomed out
    if (!node || Date.now() - scrolled < 250) return;
    if (event.deltaY > 0 && panes.zoom[node.pane.plane].k === 1) return;
    event.preventDefault();
    panes.zoomBy(node, Math.exp(-event.deltaY / 300), pointOf(node, event));
  }, { passive: false });
}
