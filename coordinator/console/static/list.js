// Long lists of which the page has a window: regions with data-height. Rows are placed by their number, the window follows
// the scroll position, and arrow keys move between rows.

import { regions } from './live.js';
import { keep } from './main.js';

/** @typedef {import('./live.js').Found} Found */
/** @typedef {import('./live.js').Region} Region */

const TALLEST = 15_000_000; // px; browsers cap the height of elements, so longer lists scroll by share

class List {
  /** @param {Region} region */
  constructor(region) {
    this.region = region;
    this.box = region.element;
    this.height = Number(this.box.dataset.height);
    this.window = region.window = Math.max(region.rows().length, 20);
    this.index = 0; // the row that the keys are at, among all
    this.focusing = false;
    this.url = this.of();
    this.box.classList.add('placed');
    this.box.tabIndex = -1;
    const fill = region.fill.bind(region);
    region.fill = (found) => this.fill(found, fill);
    this.box.addEventListener('scroll', () => this.look(), { passive: true });
    this.box.addEventListener('keydown', (event) => this.key(event));
    this.box.addEventListener('focusin', () => {
      const n = region.rows().findIndex((row) => row.contains(document.activeElement));
      if (n >= 0) this.index = this.offset + n;
    });
    addEventListener('resize', () => this.look());
    this.place();
    const before = keep(`list ${this.box.dataset.region}`, () => [this.box.scrollTop, this.index]);
    if (before) [this.box.scrollTop, this.index] = before;
  }

  /** What it lists, whatever its window is. */
  of() {
    const url = new URL(this.box.dataset.src ?? '', location.href);
    url.searchParams.delete('offset');
    return url.href;
  }

  get total() { return Number(this.box.dataset.total); }
  get offset() { return Number(this.box.dataset.offset); }
  get visible() { return this.box.clientHeight / this.height; }

  /** The first row that is visible, among all, with a fraction. */
  get first() {
    const most = this.box.scrollHeight - this.box.clientHeight;
    return most > 0 ? Math.max(0, (this.box.scrollTop / most) * (this.total - this.visible)) : 0;
  }

  /** @param {number} index */
  scrollTo(index) {
    const most = this.box.scrollHeight - this.box.clientHeight;
    const [first, seen] = [this.first, this.visible];
    const goal = index < first ? index : index + 1 > first + seen ? index + 1 - seen : first;
    if (goal !== first) this.box.scrollTop = (goal / Math.max(1, this.total - seen)) * most;
  }

  /** Asks for another window if this one ends too near to what is visible. */
  look() {
    const [first, seen, total] = [this.first, this.visible, this.total];
    const rows = this.region.rows().length;
    const low = this.offset > 0 && first < this.offset + 2;
    const high = this.offset + rows < total && first + seen > this.offset + rows - 2;
    if (!low && !high) return;
    const offset = Math.max(0, Math.min(Math.floor(first - (this.window - seen) / 2), total - this.window));
    const url = new URL(this.box.dataset.src ?? '', location.href);
    if (Number(url.searchParams.get('offset') ?? 0) === offset) return;
    url.searchParams.set('offset', String(offset));
    this.box.dataset.src = url.pathname + url.search;
    this.region.read();
  }

  /** @param {Found} found @param {(found: Found) => void} fill */
  fill(found, fill) {
    if (this.url !== this.of()) {
      this.url = this.of();
      this.region.forced = true;
      this.index = this.box.scrollTop = 0;
    }
    const inside = this.box.contains(document.activeElement);
    fill(found);
    this.place();
    if (this.focusing) this.focus(this.index);
    else if (inside && !this.box.contains(document.activeElement)) this.box.focus({ preventScroll: true });
    this.look();
  }

  place() {
    const { total, offset, height } = this;
    this.box.style.setProperty('--tall', `${Math.min(total * height, TALLEST)}px`);
    const base = total * height > TALLEST ? this.box.scrollTop - this.first * height : 0; // px; where row 0 would be
    const rows = this.region.rows();
    const current = Math.min(Math.max(this.index - offset, 0), rows.length - 1);
    rows.forEach((row, n) => {
      row.style.top = `${base + (offset + n) * height}px`;
      row.ariaSetSize = String(total);
      row.ariaPosInSet = String(offset + n + 1);
      for (const one of row.querySelectorAll('a, button, input')) /** @type {HTMLElement} */ (one).tabIndex = n === current ? 0 : -1;
    });
  }

  /** Moves the focus to a row, as soon as it is here. @param {number} [index] */
  focus(index = this.index) {
    this.index = Math.max(0, Math.min(index, this.total - 1));
    const row = this.region.rows()[this.index - this.offset];
    this.focusing = !row;
    if (row) this.place();
    this.scrollTo(this.index);
    if (row) row.querySelector('a')?.focus({ preventScroll: true });
    else this.look();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /** @type {HTMLElement} */ (event.target).closest('[role=menu], input')) return;
    const leap = Math.max(1, Math.floor(this.visible) - 1);
    const goal = new Map([
      ['ArrowDown', this.index + 1], ['j', this.index + 1], ['ArrowUp', this.index - 1], ['k', this.index - 1],
      ['PageDown', this.index + leap], ['PageUp', this.index - leap], ['Home', 0], ['End', this.total - 1],
    ]).get(event.key);
    const aside = new Map([['ArrowRight', 1], ['l', 1], ['ArrowLeft', -1], ['h', -1]]).get(event.key);
    if (goal !== undefined) this.focus(goal);
    else if (aside) beside(this, aside)?.focus();
    else return;
    event.preventDefault();
  }
}

const lists = regions.filter((region) => region.element.dataset.height).map((region) => new List(region));

/** The next list in a direction that has rows. @param {List} list @param {number} step */
function beside(list, step) {
  let n = lists.indexOf(list) + step;
  while (lists[n] && (!lists[n].total || !lists[n].box.offsetParent)) n += step;
  return lists[n];
}
