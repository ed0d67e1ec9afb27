// Searches while somebody types: form[data-search] has one text field whose answer the regions of the page show at once.
// All other fields lead to another page, as they do without this.

import { regions } from './live.js';
import { say } from './main.js';

const WAIT_MS = 300;
const LEAST = 3; // letters
const form = /** @type {HTMLFormElement} */ (document.querySelector('form[data-search]'));
const field = /** @type {HTMLInputElement} */ (form.elements.namedItem(form.dataset.search ?? ''));
let timer = 0;
let shown = field.value.trim();

/** A URL with the fields of the form as its query. @param {string} url */
function withQuery(url) {
  const query = new URLSearchParams(/** @type {any} */ (new FormData(form))).toString();
  return url.split('?')[0] + (query && `?${query}`);
}

function search() {
  const text = field.value.trim();
  if (text === shown || (text && text.length < LEAST)) return;
  shown = text;
  history.replaceState(history.state, '', withQuery(location.pathname));
  for (const region of regions) region.go(withQuery(region.element.dataset.src ?? ''));
  for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll('a[data-same]'))) {
    const url = new URL(link.href);
    if (text) url.searchParams.set(field.name, text);
    else url.searchParams.delete(field.name);
    link.href = url.href;
  }
  say(text ? `searching for ${text}` : 'all items');
}

field.addEventListener('input', () => {
  clearTimeout(timer);
  timer = window.setTimeout(search, WAIT_MS);
});
form.addEventListener('formdata', ({ formData }) => { // without empty fields, also when it is sent
  for (const [name, value] of [...formData]) {
    if (String(value).trim()) formData.set(name, String(value).trim());
    else formData.delete(name);
  }
});
for (const select of form.querySelectorAll('select')) select.addEventListener('change', () => form.requestSubmit());
