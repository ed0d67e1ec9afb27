// Long lists of which the page has a window: regions with data-height. Rows are placed by their number, the window follows
// the scroll position, and arrow keys move between rows. While somebody points at a list or has the focus in it, its rows
// keep their places: new ones wait behind a button.

import { regions, replace } from './live.js';
import { nodes, tickTimes } from './main.js';

/** @typedef {import('./live.js').Found} Found */
/** @typedef {import('./live.js').Region} Region */

const TALLEST = 15_000_000; // px; browsers cap the height of elements, so longer lists scroll by share

class List {
  /** @param {Region} region */
  constructor(region) {
    this.region = region;
    this.box = region.element;
    this.height = Number(this.box.dataset.height);
    this.window = Math.max(region.rows().length, 20);
    this.index = 0; // the row that the keys are at, among all
    this.focusing = false;
    this.pointed = false;
    this.waiting = false; // rows that have changed their places wait
    this.forced = false;
    this.url = this.of();
    this.news = /** @type {HTMLElement} */ (this.box.previousElementSibling);
    this.news.addEventListener('click', () => this.release());
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
    this.box.addEventListener('focusout', () => setTimeout(() => this.left()));
    this.box.addEventListener('pointerenter', (event) => { this.pointed = event.pointerType === 'mouse'; });
    this.box.addEventListener('pointerleave', () => { this.pointed = false; this.left(); });
    addEventListener('resize', () => this.look());
    this.place();
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
  get held() { return this.pointed || this.box.contains(document.activeElement); }

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
      this.forced = true;
      this.index = this.box.scrollTop = 0;
    }
    const same = found.offset === this.offset && this.region.rows().length > 0;
    if (this.held && same && !this.forced && this.hold(found)) return;
    const inside = this.box.contains(document.activeElement);
    this.forced = this.waiting = false;
    this.news.hidden = true;
    for (const row of this.region.rows()) row.classList.remove('gone');
    fill(found);
    this.place();
    if (this.focusing) this.focus(this.index);
    else if (inside && !this.box.contains(document.activeElement)) this.box.focus({ preventScroll: true });
    this.look();
  }

  /**
   * Brings rows up to date where they are, and counts the others.
   * @param {Found} found @returns {boolean} false: no row would change its place
   */
  hold(found) {
    const rows = this.region.rows();
    const have = new Map(rows.map((row) => [row.dataset.key, row]));
    const keys = found.rows.map(([key]) => key);
    if (keys.join() === rows.map((row) => row.dataset.key).join()) return false;
    const whole = keys.length < this.window; // else rows at its end may only have left the window, or come into it
    const lastOld = whole ? keys.length : keys.findLastIndex((key) => have.has(key));
    const fresh = keys.filter((key, n) => n <= lastOld && !have.has(key)).length;
    const end = whole ? rows.length : rows.findLastIndex((row) => keys.includes(row.dataset.key ?? ''));
    let gone = 0;
    rows.forEach((row, n) => {
      gone += Number(row.classList.toggle('gone', n <= end && !keys.includes(row.dataset.key ?? '')));
    });
    for (const [key, , html] of found.rows) {
      const row = have.get(key);
      if (!row || html === undefined) continue;
      const changed = /** @type {HTMLElement} */ (nodes(html).firstElementChild);
      tickTimes(changed);
      replace(row, changed);
    }
    this.place();
    this.waiting = true;
    this.news.textContent = [fresh && `${fresh} new`, gone && `${gone} gone`].filter(Boolean).join(', ') || 'new order';
    this.news.hidden = false;
    return true;
  }

  release() {
    this.forced = true;
    this.region.read();
  }

  left() {
    if (this.waiting && !this.held) this.release();
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
