// Rows of regions: they are replaced where they are, so that what has the focus, was unfolded or typed stays; and while
// somebody points at a list or has the focus in it, they keep their places: what would move them waits behind a button.

import { element, nodes, tickTimes } from './main.js';

/** @typedef {import('./live.js').Found} Found */
/** @typedef {import('./live.js').Region} Region */
/** @typedef {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement} Field */

/** Whether somebody has changed a field. @param {any} field */
function isTyped(field) {
  if (field.type === 'hidden') return false;
  if (field.type === 'checkbox') return field.checked !== field.defaultChecked;
  if (!field.options) return field.value !== field.defaultValue;
  return field.selectedIndex !== Math.max(0, [...field.options].findIndex((one) => one.defaultSelected));
}

/** The fields of forms in which somebody has typed what is not sent yet. @param {ParentNode} root @returns {Field[]} */
export const typed = (root) => /** @type {Field[]} */ ([...root.querySelectorAll('form[data-action] [name]')]).filter(isTyped);

/** The form for the same answer. @param {ParentNode | null} root @param {Field} field @returns {HTMLFormElement | null} */
const twin = (root, field) => root?.querySelector(`form[data-about="${CSS.escape(field.form?.dataset.about ?? '')}"]`) ?? null;

/**
 * Keeps what was typed into a form that is there no more, above its region, with what the page says of who was faster.
 * @param {HTMLElement} row @param {HTMLElement | null} fresh
 */
export function keepTyped(row, fresh) {
  const left = typed(row).filter((field) => !twin(fresh, field));
  const region = row.closest('[data-region]');
  if (!left.length || !region) return;
  const why = fresh?.querySelector('.answered')?.textContent ?? '';
  const fields = left.flatMap((field) => {
    const name = field.labels?.[0]?.querySelector('span')?.textContent ?? '';
    const text = element('textarea', { readOnly: true, rows: 3, value: field.value });
    const copy = element('button', { type: 'button' }, 'Copy');
    copy.dataset.copy = field.value;
    return [element('label', { className: 'field' }, element('span', {}, name), text), copy];
  });
  const away = element('button', { type: 'button', onclick: () => kept.remove() }, 'Dismiss');
  const kept = element('section', { className: 'kept' }, `It cannot be sent any more. ${why} You had typed:`, ...fields, away);
  kept.setAttribute('role', 'status');
  region.before(kept);
}

/** @param {Element} region @param {string} html @returns {HTMLElement} the row; in a drawing, elements belong to SVG */
export function parsed(region, html) {
  const drawn = region instanceof SVGElement;
  const first = nodes(drawn ? `<svg>${html}</svg>` : html).firstElementChild;
  return /** @type {HTMLElement} */ (drawn ? first?.firstElementChild : first);
}

/** Shows what the page says about a region outside of it. @param {string} region @param {string} html */
export function showHead(region, html) {
  for (const head of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(`[data-head-of="${region}"]`))) {
    const fresh = /** @type {HTMLElement} */ (head.cloneNode(false));
    fresh.append(nodes(html));
    tickTimes(fresh);
    if (fresh.innerHTML !== head.innerHTML) replace(head, fresh);
  }
}

/** Replaces a row; what has the focus inside keeps it, and what was unfolded or typed stays so. @param {HTMLElement} row @param {HTMLElement} fresh */
export function replace(row, fresh) {
  const focused = row.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
  const folded = new Map([...fresh.querySelectorAll('details')].map((one) => [one.querySelector('summary')?.textContent, one]));
  for (const one of row.querySelectorAll('details')) {
    const same = folded.get(one.querySelector('summary')?.textContent);
    if (same) same.open = one.open;
  }
  /** @type {HTMLElement | null | undefined} */
  let next = null;
  for (const field of /** @type {NodeListOf<any>} */ (row.querySelectorAll('form [name]'))) {
    const same = /** @type {any} */ (twin(fresh, field)?.elements.namedItem(field.name));
    if (same && isTyped(field)) Object.assign(same, { value: field.value, checked: field.checked });
    if (field === focused) next = same;
  }
  keepTyped(row, fresh);
  const place = focused ? [...row.querySelectorAll('*')].indexOf(focused) : -1;
  row.replaceWith(fresh);
  if (focused) (next ?? /** @type {HTMLElement} */ (place < 0 ? fresh : fresh.querySelectorAll('*')[place]))?.focus();
}

/**
 * Makes a change, and scrolls so that the row at which somebody points, or which has the focus, stays where it is.
 * @param {boolean} same whether it shows the same rows; who goes to others, leaves that one @param {() => void} change
 */
export function steadily(same, change) {
  if (!same) return change();
  const found = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-key]:hover'));
  const row = [...found].at(-1) ?? /** @type {HTMLElement | null} */ (document.querySelector('[data-key]:focus-within'));
  const region = row?.parentElement;
  const top = row?.getBoundingClientRect().top ?? 0;
  change();
  const there = row?.isConnected ? row : region?.querySelector(`[data-key="${CSS.escape(row?.dataset.key ?? '')}"]`);
  let moved = there ? Math.round(there.getBoundingClientRect().top - top) : 0;
  for (let around = there?.parentElement; around && moved; around = around.parentElement) {
    const before = around.scrollTop;
    around.scrollTop += moved;
    moved -= Math.round(around.scrollTop - before);
  }
}

/** The button behind which changes of a region wait. @param {Region} region @returns {HTMLElement} */
function newsOf(region) {
  const before = region.element.previousElementSibling;
  if (before?.matches('.news')) return /** @type {HTMLElement} */ (before);
  const around = region.element.closest('table') ?? region.element;
  const made = element('button', { className: 'news', type: 'button' });
  around.before(element('div', { className: 'news-place' }, made));
  return made;
}

/**
 * Brings rows up to date where they are, and counts the others.
 * @param {Region} region @param {Found} found @returns {boolean} false: no row would change its place
 */
export function hold(region, found) {
  const rows = region.rows();
  const have = new Map(rows.map((row) => [row.dataset.key, row]));
  const keys = found.rows.map(([key]) => key);
  if (rows.every((row, n) => row.dataset.key === keys[n])) return false;
  const whole = keys.length < region.window; // else rows at its end may only have left the window, or come into it
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
    const changed = parsed(region.element, html);
    tickTimes(changed);
    replace(row, changed);
  }
  if (!region.news) {
    region.news = newsOf(region);
    region.news.addEventListener('click', () => region.release());
  }
  region.waiting = true;
  region.news.textContent = [fresh && `${fresh} new`, gone && `${gone} gone`].filter(Boolean).join(', ') || 'new order';
  region.news.hidden = false;
  return true;
}
