// What every page has: theme, times, copies, the pause and keys. Page text comes from the server as HTML; the only place
// where text becomes HTML is `nodes`.

/** @typedef {{createHTML: (text: string) => string}} Policy */
/** @type {{trustedTypes?: {createPolicy: (name: string, rules: Policy) => Policy}}} */
const { trustedTypes } = /** @type {any} */ (window);
const policy = trustedTypes?.createPolicy('fleet', { createHTML: (text) => text });

/** @param {string} id @returns {HTMLElement} */
export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/**
 * The elements of HTML that our server has rendered.
 * @param {string} html
 * @returns {DocumentFragment}
 */
export function nodes(html) {
  const template = document.createElement('template');
  template.innerHTML = policy ? policy.createHTML(html) : html;
  return template.content;
}

/** @param {string} tag @param {Record<string, unknown>} properties @param {(Node | string)[]} content */
export function element(tag, properties, ...content) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...content);
  return made;
}

/** Says something to people who cannot see the page change. @param {string} text */
export function say(text) {
  byId('polite').textContent = text;
}

/** Shows a message for a while. @param {string} text @param {{label: string, act: () => void}} [undo] */
export function toast(text, undo) {
  const shown = Object.assign(document.createElement('div'), { className: 'toast', textContent: text });
  if (undo) {
    const button = Object.assign(document.createElement('button'), { type: 'button', textContent: undo.label });
    button.addEventListener('click', () => { shown.remove(); undo.act(); });
    shown.append(' ', button);
  }
  byId('toasts').append(shown);
  setTimeout(() => shown.remove(), 8000);
  say(text);
}

// --- the place in a page, which Back finds again: kept with the entry of the history when the page is left ---

const MOST_PLACES = 100;
const place = history.state?.place ?? `place-${Date.now()}-${Math.random()}`;
history.replaceState({ place }, '');
const before = JSON.parse(sessionStorage.getItem(place) ?? '{}');
/** @type {Map<string, () => unknown>} */
const keepers = new Map();

/** Keeps something of the page; returns what was kept when it was left. @param {string} name @param {() => unknown} value @returns {any} */
export function keep(name, value) {
  keepers.set(name, value);
  return before[name];
}
addEventListener('pagehide', () => {
  if (sessionStorage.length > MOST_PLACES) sessionStorage.clear();
  sessionStorage.setItem(place, JSON.stringify(Object.fromEntries([...keepers].map(([name, value]) => [name, value()]))));
});

// --- times: one timer for all of them, by the server's clock ---

let ahead = 0;

/** Takes over the server's time. @param {number} now in ms */
export function serverTime(now) {
  ahead = now - Date.now();
}

/** @param {number} seconds */
function span(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** @param {number} seconds */
function clock(seconds) {
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60), seconds % 60];
  const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** Brings the times below an element up to date. @param {ParentNode} [root] */
export function tickTimes(root = document) {
  const now = Date.now() + ahead;
  for (const one of /** @type {NodeListOf<HTMLTimeElement>} */ (root.querySelectorAll('time[data-ago], time[data-left]'))) {
    one.title ||= one.textContent ?? '';
    const { ago, left } = one.dataset;
    const rest = left === undefined ? 0 : Math.ceil((Number(left) - now) / 1000);
    const text = ago !== undefined
      ? `${span(Math.max(0, Math.floor((now - Number(ago)) / 1000)))} ago`
      : rest > 0 ? `${rest < 172800 ? clock(rest) : span(rest)} left` : 'expired';
    if (one.textContent !== text) one.textContent = text;
    if (left !== undefined) one.classList.toggle('soon', rest < 60);
  }
}
setInterval(tickTimes, 1000);
tickTimes();

// --- theme ---

const themes = ['auto', 'light', 'dark'];
const look = document.documentElement.dataset;
look.theme = localStorage.getItem('theme') ?? 'auto';
byId('theme')?.addEventListener('click', () => {
  look.theme = themes[(themes.indexOf(look.theme ?? '') + 1) % themes.length];
  localStorage.setItem('theme', look.theme);
  say(`theme: ${look.theme}`);
});

// --- copies: without HTTPS there is no clipboard, so the text is selected instead ---

document.addEventListener('click', async (event) => {
  const element = /** @type {HTMLElement | null} */ (/** @type {HTMLElement} */ (event.target).closest?.('[data-copy]'));
  if (!element) return;
  const text = element.dataset.copy ?? '';
  try {
    await navigator.clipboard.writeText(text);
    toast(`copied ${text}`);
  } catch {
    element.textContent = text;
    getSelection()?.selectAllChildren(element);
    toast('press Ctrl+C to copy');
  }
});
