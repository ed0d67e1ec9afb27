// Looking around in a graph. Its pane scrolls by itself (wheel, touch, arrow keys); this adds zoom and drag, fits it
// without making it unreadable, and lets it follow the list that says the same: the list's focus is the graph's.

import { say } from './main.js';

const READABLE = 0.8; // fitting makes nothing smaller; people may, down to SMALLEST
const SMALLEST = 0.1;
const LARGEST = 3;
const STEP = 1.25;
const DRAG_PX = 4; // a pointer that moves less clicks

/** A graph, and the tree list beside it, if there is one. */
class Graph {
  /** @param {HTMLElement} figure */
  constructor(figure) {
    this.pane = /** @type {HTMLElement} */ (figure.querySelector('.pane'));
    this.svg = /** @type {SVGSVGElement} */ (figure.querySelector('.drawing'));
    this.scale = 1;
    /** @type {string | undefined} */
    this.at = undefined; // the key of the node that has the focus
    figure.addEventListener('click', (event) => {
      const how = /** @type {HTMLElement} */ (event.target).closest('[data-zoom]')?.getAttribute('data-zoom');
      if (how === 'fit') this.fit();
      else if (how) this.zoom(how === 'in' ? STEP : 1 / STEP);
    });
    this.pane.addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === '+' || event.key === '=') this.zoom(STEP);
      else if (event.key === '-') this.zoom(1 / STEP);
      else if (event.key === '0') this.fit();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.pane.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // it scrolls
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
    }, { passive: false });
    this.drag();
    this.pinch();
    this.svg.addEventListener('region', () => this.redrawn());
    this.place = this.placeOfFocus();
    this.fit();
  }

  /** @returns {[number, number]} the size of the drawing */
  size() {
    const box = this.svg.querySelector('[data-box]')?.getAttribute('data-box') ?? '1 1';
    const [width, height] = box.split(' ').map(Number);
    return [width, height];
  }

  /** Draws it at a scale; the point of the page stays under the pointer. */
  /** @param {number} by @param {number} [x] @param {number} [y] */
  zoom(by, x, y) {
    const pane = this.pane.getBoundingClientRect();
    const [px, py] = [(x ?? pane.left + pane.width / 2) - pane.left, (y ?? pane.top + pane.height / 2) - pane.top];
    const before = this.scale;
    this.draw(before * by);
    const ratio = this.scale / before;
    this.pane.scrollTo((this.pane.scrollLeft + px) * ratio - px, (this.pane.scrollTop + py) * ratio - py);
  }

  /** @param {number} scale */
  draw(scale) {
    const [width, height] = this.size();
    this.scale = Math.min(LARGEST, Math.max(SMALLEST, scale));
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.svg.setAttribute('width', String(width * this.scale));
    this.svg.setAttribute('height', String(height * this.scale));
    this.pane.dataset.scale = this.scale.toFixed(2);
  }

  /** All of it if that can be read, else a part: the node with the focus, or what stands out, or the beginning. */
  fit() {
    const [width, height] = this.size();
    const [paneWidth, paneHeight] = [this.pane.clientWidth - 24, Math.max(this.pane.clientHeight, 300) - 24];
    const whole = Math.min(1, paneWidth / width, paneHeight / height);
    this.draw(Math.max(READABLE, whole));
    this.pane.classList.toggle('short', height * this.scale < paneHeight);
    this.pane.scrollTo(0, 0);
    const first = this.node(this.at) ?? this.svg.querySelector('.node.first, .node.strong');
    if (first) this.show(first);
    else if (whole < READABLE) this.show(this.svg.querySelector('.node'));
  }

  /** @param {string | undefined} key @returns {Element | null} */
  node(key) {
    return key === undefined ? null : this.svg.querySelector(`.node[data-key="${CSS.escape(key)}"]`);
  }

  /** Scrolls the pane, and only the pane, until a node is well inside. @param {Element | null} node */
  show(node) {
    if (!node) return;
    const [pane, box] = [this.pane.getBoundingClientRect(), node.getBoundingClientRect()];
    const margin = 40;
    const over = (/** @type {number} */ low, /** @type {number} */ high, /** @type {number} */ from, /** @type {number} */ to) =>
      low < from + margin ? low - from - margin : Math.max(0, Math.min(high - to + margin, low - from - margin));
    this.pane.scrollBy(over(box.left, box.right, pane.left, pane.right), over(box.top, box.bottom, pane.top, pane.bottom));
  }

  /** Marks a node and shows it. @param {string} key */
  focus(key) {
    this.node(this.at)?.classList.remove('at');
    this.at = key;
    const node = this.node(key);
    node?.classList.add('at');
    this.show(node);
    this.place = this.placeOfFocus();
  }

  placeOfFocus() {
    const node = this.node(this.at);
    const numbers = node?.getAttribute('transform')?.match(/-?[\d.]+/g);
    return numbers ? numbers.map(Number) : undefined;
  }

  /** After new states, or a new structure: then what has the focus stays where it is on the screen. */
  redrawn() {
    this.node(this.at)?.classList.add('at');
    const [before, after] = [this.place, this.placeOfFocus()];
    const [width, height] = this.size();
    if (this.svg.getAttribute('viewBox') !== `0 0 ${width} ${height}`) {
      this.draw(this.scale);
      say('The graph has changed.');
    }
    if (before && after) this.pane.scrollBy((after[0] - before[0]) * this.scale, (after[1] - before[1]) * this.scale);
    this.place = after;
  }

  drag() {
    /** @type {PointerEvent | null} */
    let last = null;
    let moved = 0;
    this.pane.addEventListener('pointerdown', (event) => {
      if (event.pointerType !== 'mouse' || event.button !== 0) return; // touch scrolls
      last = event;
      moved = 0;
    });
    window.addEventListener('pointermove', (event) => {
      if (!last) return;
      moved += Math.abs(event.clientX - last.clientX) + Math.abs(event.clientY - last.clientY);
      if (moved >= DRAG_PX) {
        this.pane.classList.add('dragged');
        this.pane.scrollBy(last.clientX - event.clientX, last.clientY - event.clientY);
      }
      last = event;
    });
    window.addEventListener('pointerup', () => {
      last = null;
      this.pane.classList.remove('dragged');
    });
    this.pane.addEventListener('dragstart', (event) => event.preventDefault()); // of links
    this.pane.addEventListener('click', (event) => { if (moved >= DRAG_PX) event.preventDefault(); }, true);
  }

  pinch() {
    let apart = 0;
    const measure = (/** @type {TouchEvent} */ event) => {
      const [one, other] = event.touches;
      const centre = [(one.clientX + other.clientX) / 2, (one.clientY + other.clientY) / 2];
      return [Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY), ...centre];
    };
    this.pane.addEventListener('touchstart', (event) => {
      if (event.touches.length !== 2) return;
      event.preventDefault();
      [apart] = measure(event);
    }, { passive: false });
    this.pane.addEventListener('touchmove', (event) => {
      if (event.touches.length !== 2 || !apart) return;
      event.preventDefault();
      const [now, x, y] = measure(event);
      this.zoom(now / apart, x, y);
      apart = now;
    }, { passive: false });
  }
}

const graphs = [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-graph]'))].map(
  (figure) => new Graph(figure),
);

// --- the tree list: one stop for the tab key, arrows within it ---

const list = /** @type {HTMLElement | null} */ (document.querySelector('[role="tree"]'));
const entries = () => [.../** @type {NodeListOf<HTMLElement>} */ (list?.querySelectorAll('[role="treeitem"]') ?? [])];

/** Makes one entry the stop of the tab key. @param {HTMLElement} [chosen] */
function stopAt(chosen = entries().find((one) => one === document.activeElement || one.tabIndex === 0)) {
  const all = entries();
  for (const one of all) one.tabIndex = one === (chosen ?? all[0]) ? 0 : -1;
}

/** @param {HTMLElement} entry */
const level = (entry) => Number(entry.getAttribute('aria-level'));

list?.addEventListener('keydown', (event) => {
  const all = entries();
  const place = all.indexOf(/** @type {HTMLElement} */ (event.target));
  if (place < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  const own = level(all[place]);
  /** @type {Record<string, HTMLElement | undefined>} */
  const ways = {
    ArrowDown: all[place + 1],
    ArrowUp: all[place - 1],
    ArrowRight: all[place + 1] && level(all[place + 1]) > own ? all[place + 1] : undefined,
    ArrowLeft: all.slice(0, place).reverse().find((one) => level(one) < own),
    Home: all[0],
    End: all[all.length - 1],
  };
  if (!(event.key in ways)) return;
  event.preventDefault();
  ways[event.key]?.focus();
});
list?.addEventListener('focusin', (event) => {
  const entry = /** @type {HTMLElement} */ (event.target);
  stopAt(entry);
  const key = /** @type {HTMLElement | null} */ (entry.closest('[data-key]'))?.dataset.key;
  if (key) for (const graph of graphs) graph.focus(key);
});
list?.addEventListener('region', () => stopAt());
stopAt();
