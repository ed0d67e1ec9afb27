// Keys of every page, the palette and the help (console/keyboard.py). Keys of lists are in list.js and actions.js.

import { Region, pause } from './live.js';
import { byId } from './main.js';

const GO_MS = 2_000; // between g and the letter of a page
const WAIT_MS = 200; // after the last key, before the palette looks
const [palette, help] = /** @type {HTMLDialogElement[]} */ ([byId('palette'), byId('keys')]);
const [field, letters] = /** @type {HTMLInputElement[]} */ ([byId('find'), byId('letters')]);
const found = new Region(byId('found'));
const source = found.element.dataset.src;
let went = -GO_MS;
let wanted = false; // the first find is to be opened
let timer = 0;

const focused = () => /** @type {HTMLElement} */ (document.activeElement);
const links = (/** @type {ParentNode} */ root) => /** @type {HTMLElement[]} */ ([...root.querySelectorAll('a:first-of-type')]);
const plain = (/** @type {KeyboardEvent} */ event) => !event.ctrlKey && !event.metaKey && !event.altKey
  && !focused().matches('textarea, select, input:not([type="checkbox"])');

letters.checked = localStorage.getItem('letters') !== 'off';
letters.addEventListener('change', () => localStorage.setItem('letters', letters.checked ? 'on' : 'off'));

// Ahead of all others, so that one switch is for all keys that are single letters.
window.addEventListener('keydown', (event) => {
  if (!letters.checked && event.key.length === 1 && event.key !== ' ' && plain(event)) event.stopImmediatePropagation();
}, { capture: true });

/** Moves the focus to another row of the list that has it, or to the first list. @param {number} step */
function move(step) {
  const list = focused().closest('[data-region]') ?? document.querySelector('main [data-region]:has(a):not([hidden])');
  const rows = [...list?.children ?? []].filter((row) => row.querySelector('a, button'));
  const at = rows.findIndex((row) => row.contains(focused()));
  const row = rows[at < 0 ? 0 : Math.min(Math.max(at + step, 0), rows.length - 1)];
  /** @type {HTMLElement | null | undefined} */ (row?.querySelector('a, button'))?.focus();
}

document.addEventListener('keydown', (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
    event.preventDefault();
    if (!palette.open) { palette.showModal(); find(); }
    return;
  }
  if (!plain(event) || event.defaultPrevented || document.querySelector('dialog[open]')) return;
  const page = event.timeStamp - went < GO_MS ? document.querySelector(`[data-go="${CSS.escape(event.key)}"]`) : null;
  went = event.key === 'g' ? event.timeStamp : -GO_MS;
  if (page) /** @type {HTMLElement} */ (page).click();
  else if (event.key === '/') /** @type {HTMLElement | null} */ (document.querySelector('[data-filter], main form input'))?.focus();
  else if (event.key === '?') help.showModal();
  else if (event.key === 'r' && byId('pause')) pause();
  else if (event.key === 'j' || event.key === 'k') move(event.key === 'j' ? 1 : -1);
  else return;
  event.preventDefault();
});

function find() {
  clearTimeout(timer);
  found.go(`${source}?text=${encodeURIComponent(field.value)}`);
}
field.addEventListener('input', () => { clearTimeout(timer); timer = window.setTimeout(find, WAIT_MS); });
field.form?.addEventListener('submit', (event) => { event.preventDefault(); wanted = true; find(); });
found.element.addEventListener('region', () => {
  if (wanted) links(found.element)[0]?.click();
  wanted = false;
});
palette.addEventListener('keydown', (event) => {
  const all = [field, ...links(found.element)];
  const at = all.indexOf(/** @type {any} */ (focused())) + (event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0);
  if (event.key.startsWith('Arrow') && all[at] !== focused()) { all[at]?.focus(); event.preventDefault(); }
});
