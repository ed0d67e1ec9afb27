// Items of lists that are chosen, to be changed together: boxes and keys, and the bar that shows how many they are.

import { byId, keep, say, toast } from './main.js';

const MOST = 50;

/** @type {Set<string>} */
export const chosen = new Set();
export const keyOf = (/** @type {Element | null | undefined} */ element) => /** @type {HTMLElement | null} */ (element?.closest('[data-key^="item:"]'));

function showChosen() {
  const bar = byId('bulk');
  if (!bar) return;
  for (const box of /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll('[data-choose]'))) {
    box.checked = chosen.has(keyOf(box)?.dataset.key ?? '');
  }
  bar.hidden = !chosen.size;
  byId('chosen').textContent = `${chosen.size} chosen`;
}

/** @param {HTMLElement} row */
export function choose(row) {
  const key = row.dataset.key ?? '';
  if (!chosen.delete(key)) {
    if (chosen.size >= MOST) return toast(`At most ${MOST} items can be chosen at a time.`);
    chosen.add(key);
  }
  showChosen();
  say(`${chosen.size} chosen`);
}

/** Repeats the element of a list for each item that is chosen. @param {HTMLElement} element @param {any} given */
export function every(element, given) {
  const [list, field] = (element.dataset.each ?? '').split('.');
  if (field) given[list] = [...chosen].map((key) => ({ ...given[list][0], [field]: key.slice('item:'.length) }));
  return given;
}

/** Chooses none. */
export function chooseNone() {
  chosen.clear();
  showChosen();
}

document.addEventListener('region', showChosen);
for (const key of keep('chosen', () => [...chosen]) ?? []) chosen.add(key);
if (chosen.size) showChosen();

// Keys: choose the item that has the focus, or open its actions.
document.addEventListener('keydown', (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  const row = keyOf(target);
  if (!row || event.ctrlKey || event.metaKey || event.altKey || target.matches('textarea, select')) return;
  if (event.key === 'x' && row.querySelector('[data-choose]')) choose(row);
  else if (event.key === '.') /** @type {HTMLElement | null} */ (row.querySelector('[data-menu]'))?.click();
  else return;
  event.preventDefault();
});
