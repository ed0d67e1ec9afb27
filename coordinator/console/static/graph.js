// Looking around in a graph. Its pane scrolls by itself (wheel, touch, arrow keys); this adds zoom and drag, fits it
// without making it unreadable, and lets it follow the tree list that says the same: the list's focus is the graph's.

import { keep, say } from './main.js';

const READABLE = 0.8; // fitting makes nothing smaller; people may, down to SMALLEST
const SMALLEST = 0.1;
const LARGEST = 3;
const STEP = 1.25;
const DRAG_PX = 4; // a pointer that moves less clicks
const MARGIN_PX = 40;

/** How far to scroll until a span is inside another. @param {number} low @param {number} high @param {number} from @param {number} to */
function away(low, high, from, to) {
  return low < from + MARGIN_PX ? low - from - MARGIN_PX : Math.max(0, Math.min(high - to + MARGIN_PX, low - from - MARGIN_PX));
}

class Graph {
  /** @param {HTMLElement} figure */
  constructor(figure) {
    this.pane = /** @type {HTMLElement} */ (figure.querySelector('.pane'));
    this.svg = /** @type {SVGSVGElement} */ (figure.querySelector('.drawing'));
    this.scale = 1;
    this.at = ''; // the key of the node that has the focus
    const change = (/** @type {string} */ how) => (how === 'fit' ? this.fit() : this.zoom(how === 'in' ? STEP : 1 / STEP));
    figure.addEventListener('click', (event) => {
      const how = /** @type {Element} */ (event.target).closest('[data-zoom]')?.getAttribute('data-zoom');
      if (how) change(how);
    });
    this.pane.addEventListener('keydown', (event) => {
      const how = { '+': 'in', '=': 'in', '-': 'out', 0: 'fit' }[event.key];
      if (!how || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      change(how);
    });
    this.pane.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // it scrolls
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
    }, { passive: false });
    this.drag();
    this.pinch();
    this.svg.addEventListener('region', () => this.redrawn());
    this.fit();
    const kept = keep(`graph ${this.svg.dataset.region}`, () => [this.scale, this.pane.scrollLeft, this.pane.scrollTop]);
    if (!kept) return;
    this.draw(kept[0]);
    this.pane.scrollTo(kept[1], kept[2]);
  }

  /** @returns {number[]} width and height of the drawing */
  size() {
    return (this.svg.querySelector('[data-box]')?.getAttribute('data-box') ?? '1 1').split(' ').map(Number);
  }

  /** Draws it larger; what is at a point of the window stays there. @param {number} by @param {number} [x] @param {number} [y] */
  zoom(by, x, y) {
    const pane = this.pane.getBoundingClientRect();
    const [px, py] = [x === undefined ? pane.width / 2 : x - pane.left, y === undefined ? pane.height / 2 : y - pane.top];
    const [left, top, before] = [this.pane.scrollLeft, this.pane.scrollTop, this.scale];
    this.draw(before * by);
    const ratio = this.scale / before;
    this.pane.scrollTo((left + px) * ratio - px, (top + py) * ratio - py);
  }

  /** @param {number} scale */
  draw(scale) {
    const [width, height] = this.size();
    this.scale = Math.min(LARGEST, Math.max(SMALLEST, scale));
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.svg.setAttribute('width', String(width * this.scale));
    this.svg.setAttribute('height', String(height * this.scale));
    this.place = this.placeOfFocus();
  }

  /** All of it if that can be read, else what has the focus, what comes first, or the beginning. */
  fit() {
    const [width, height] = this.size();
    const most = 0.56 * innerHeight - 24; // as in the styles
    this.draw(Math.max(READABLE, Math.min(1, (this.pane.clientWidth - 24) / width, most / height)));
    this.pane.scrollTo(0, 0);
    this.show(this.node() ?? this.svg.querySelector('.node.first') ?? this.svg.querySelector('.node'));
  }

  /** @returns {Element | null} what has the focus */
  node() {
    return this.at ? this.svg.querySelector(`.node[data-key="${CSS.escape(this.at)}"]`) : null;
  }

  placeOfFocus() {
    return this.node()?.getAttribute('transform')?.match(/[\d.]+/g)?.map(Number);
  }

  /** Scrolls the pane, and only the pane, until a node is well inside. @param {Element | null} node */
  show(node) {
    if (!node) return;
    const [pane, box] = [this.pane.getBoundingClientRect(), node.getBoundingClientRect()];
    this.pane.scrollBy(away(box.left, box.right, pane.left, pane.right), away(box.top, box.bottom, pane.top, pane.bottom));
  }

  /** @param {string} key */
  focus(key) {
    this.node()?.classList.remove('at');
    this.at = key;
    this.node()?.classList.add('at');
    this.place = this.placeOfFocus();
    this.show(this.node());
  }

  /** After new states, or a new structure: then what has the focus stays where it is in the window. */
  redrawn() {
    this.node()?.classList.add('at');
    const [before, after] = [this.place, this.placeOfFocus()];
    const drawn = this.svg.getAttribute('viewBox');
    if (drawn === '0 0 1 1') this.fit(); // the first drawing
    else if (drawn !== `0 0 ${this.size().join(' ')}`) say('The graph has changed.');
    this.draw(this.scale);
    if (before && after) this.pane.scrollBy((after[0] - before[0]) * this.scale, (after[1] - before[1]) * this.scale);
  }

  drag() {
    let held = false;
    let moved = 0;
    this.pane.addEventListener('pointerdown', (event) => {
      moved = 0;
      held = event.pointerType === 'mouse' && event.button === 0; // touch scrolls
    });
    window.addEventListener('pointermove', ({ movementX, movementY }) => {
      moved += held ? Math.abs(movementX) + Math.abs(movementY) : 0;
      if (held && moved >= DRAG_PX) this.pane.scrollBy(-movementX, -movementY);
    });
    window.addEventListener('pointerup', () => { held = false; });
    this.pane.addEventListener('dragstart', (event) => event.preventDefault()); // of links
    this.pane.addEventListener('click', (event) => { if (moved >= DRAG_PX) event.preventDefault(); }, true);
  }

  pinch() {
    let apart = 0;
    const pinched = (/** @type {TouchEvent} */ event) => {
      if (event.touches.length !== 2) return;
      event.preventDefault();
      const [one, other] = event.touches;
      const now = Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
      if (event.type === 'touchmove' && apart) {
        this.zoom(now / apart, (one.clientX + other.clientX) / 2, (one.clientY + other.clientY) / 2);
      }
      apart = now;
    };
    this.pane.addEventListener('touchstart', pinched, { passive: false });
    this.pane.addEventListener('touchmove', pinched, { passive: false });
  }
}

const graphs = [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-graph]'))].map((one) => new Graph(one));

// --- the tree list: one stop of the tab key, arrows within it ---

const list = document.querySelector('[role="tree"]');
const entries = () => [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[role="treeitem"]'))];
let stop = ''; // the row of the entry where the tab key stops

/** @param {HTMLElement} entry */
const rowOf = (entry) => entry.parentElement?.dataset.key ?? '';
/** @param {HTMLElement | undefined} entry */
const level = (entry) => Number(entry?.getAttribute('aria-level') ?? 0);

function setStop() {
  const all = entries();
  const chosen = all.find((one) => rowOf(one) === stop) ?? all[0];
  for (const one of all) one.tabIndex = one === chosen ? 0 : -1;
}

list?.addEventListener('keydown', (event) => {
  const { key, ctrlKey, metaKey, altKey } = /** @type {KeyboardEvent} */ (event);
  const all = entries();
  const place = all.indexOf(/** @type {HTMLElement} */ (event.target));
  const own = level(all[place]);
  const to = {
    ArrowDown: place + 1,
    ArrowUp: place - 1,
    ArrowRight: level(all[place + 1]) > own ? place + 1 : place,
    ArrowLeft: all.findLastIndex((one, n) => n < place && level(one) < own),
    Home: 0,
    End: all.length - 1,
  }[key];
  if (to === undefined || ctrlKey || metaKey || altKey) return;
  event.preventDefault();
  all[to]?.focus();
});
list?.addEventListener('focusin', (event) => {
  stop = rowOf(/** @type {HTMLElement} */ (event.target));
  setStop();
  for (const graph of graphs) graph.focus(stop);
});
list?.addEventListener('region', setStop);
setStop();
