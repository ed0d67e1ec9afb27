// What people change: buttons and forms send what stands in their attributes (console/buttons.py), show what was refused
// beside them, and repeat a request whose answer was lost under the same id, so that nothing is done twice.

import { choose, chooseNone, chosen, every, keyOf } from './chosen.js';
import { regions } from './live.js';
import { byId, nodes, toast } from './main.js';

/** @typedef {{action: string, arguments: any}} Step */
/** @typedef {{element: HTMLElement, body: string, ids: string[]}} Attempt */

const TRIES = 3;
const PAUSE_MS = 1_000;
const MANY = 20; // of more items, a name has to be typed, which the server checks, too (console/large.py)
const LOST = 'No answer came. Try again: what was done already is not done twice.';

/** @type {WeakMap<HTMLElement, Attempt>} Of each button whose last answer was lost. */
const lost = new WeakMap();

function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16)); // randomUUID is there with HTTPS only
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

/** Puts a value into arguments. @param {any} target @param {string} path such as items.0.title @param {unknown} value */
function put(target, path, value) {
  const names = path.split('.');
  const last = /** @type {string} */ (names.pop());
  for (const name of names) target = target[name] ??= {};
  target[last] = value;
}

// --- requests ---

/** @param {Step} step @param {string} id @returns {Promise<{problem?: string, lost?: boolean, result?: any}>} */
async function post(step, id) {
  const body = JSON.stringify({ ...step.arguments, requestId: id });
  const headers = { 'content-type': 'application/json', 'fleet-console': '1' };
  for (let left = TRIES; ; left -= 1) {
    try {
      const answer = await fetch(step.action, { method: 'POST', headers, body });
      const told = await answer.json();
      if (answer.ok) return told;
      const { message } = told.error;
      if (answer.status === 401) return { problem: 'You are signed out: sign in again in another tab, then repeat this.' };
      const later = answer.status === 503;
      if (!later || left <= 1) return { problem: message, lost: later };
    } catch {
      if (left <= 1) return { problem: LOST, lost: true };
    }
    await new Promise((resolve) => { setTimeout(resolve, PAUSE_MS); });
  }
}

/**
 * Makes changes, one after the other; what was refused is returned.
 * @param {HTMLElement} element @param {Step[]} steps
 */
async function send(element, steps) {
  const body = JSON.stringify(steps);
  const before = lost.get(element);
  const ids = before?.body === body ? before.ids : steps.map(newId);
  lost.delete(element);
  for (const [number, step] of steps.entries()) {
    const told = await post(step, ids[number]);
    if (told.lost) lost.set(element, { element, body, ids });
    if (told.problem) return told.problem;
  }
  return '';
}

/** @param {HTMLElement} element @returns {HTMLElement} where its refusals are shown */
function placeOf(element) {
  const inside = element.querySelector('.failed');
  if (inside) return /** @type {HTMLElement} */ (inside);
  const beside = element.nextElementSibling;
  if (beside?.classList.contains('failed')) return /** @type {HTMLElement} */ (beside);
  const made = document.createElement('span');
  made.className = 'failed';
  made.setAttribute('role', 'alert');
  element.after(made);
  return made;
}

/**
 * Does what a button or form says. Nothing on the page changes before the answer is there.
 * @param {HTMLElement} element @param {any} given its arguments, filled in @param {Step | null} next a second change
 * @returns {Promise<boolean>} whether it is done
 */
async function act(element, given, next) {
  const { action = '', done = '', undo } = element.dataset;
  if (element.getAttribute('aria-busy')) return false;
  const place = placeOf(element);
  place.textContent = '';
  element.setAttribute('aria-busy', 'true');
  const problem = await send(element, [{ action, arguments: given }, ...(next ? [next] : [])]);
  element.removeAttribute('aria-busy');
  if (problem) {
    place.textContent = problem;
    if (!place.isConnected || place.closest('[data-region]')) toast(problem); // its row is replaced, now or soon
    for (const region of regions) region.soon(); // perhaps somebody else was faster
    return false;
  }
  const back = undo && { action, arguments: every(element, { ...JSON.parse(undo), typed: given.typed }) };
  const taken = back && { label: 'Undo', act: () => takeBack(element, back) };
  if (done) toast(done, taken || undefined);
  if (element.dataset.each) chooseNone();
  for (const region of regions) region.soon();
  return true;
}

/** @param {HTMLElement} element @param {Step} step */
async function takeBack(element, step) {
  const problem = await send(element, [step]);
  toast(problem || 'Taken back.');
  for (const region of regions) region.soon();
}

// --- dialogs ---

/** @param {HTMLDialogElement} shown */
function open(shown) {
  const from = /** @type {HTMLElement | null} */ (document.activeElement);
  shown.addEventListener('close', () => { (from?.isConnected ? from : byId('main')).focus(); }, { once: true });
  shown.showModal();
}

/** @param {string} tag @param {Record<string, string>} [attributes] @param {(Node | string)[]} children */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A dialog that goes when it is closed. @param {string} title @param {Node[]} content */
function passing(title, ...content) {
  const close = make('button', { type: 'button', 'data-closes': '' }, 'Close');
  const buttons = make('div', { class: 'buttons' }, close);
  const heading = make('h2', { id: 'passing' }, title);
  const shown = make('dialog', { 'aria-labelledby': 'passing' }, heading, ...content, buttons);
  document.body.append(shown);
  shown.addEventListener('close', () => shown.remove());
  open(/** @type {HTMLDialogElement} */ (shown));
  return { shown: /** @type {HTMLDialogElement} */ (shown), buttons, close };
}

/** Asks before a change. @param {HTMLElement} button @param {any} given @param {string} question @param {string} typed */
function confirm(button, given, question, typed) {
  const form = /** @type {HTMLFormElement} */ (make('form', { class: 'action', method: 'dialog' }, make('p', {}, question)));
  const { reason, needed } = button.dataset;
  /** @param {string} title @param {Record<string, string>} attributes */
  const field = (title, attributes) => {
    const input = make('input', { type: 'text', autocomplete: 'off', ...attributes });
    form.append(make('label', { class: 'field' }, make('span', {}, title), input));
    return /** @type {HTMLInputElement} */ (input);
  };
  const why = reason && field(needed ? 'Reason' : 'Reason (optional)', { maxlength: '500', ...(needed && { required: '' }) });
  const name = typed && field(`Type ${typed} to go on`, { required: '' });
  const yes = /** @type {HTMLButtonElement} */ (make('button', { type: 'submit', class: 'danger' }, button.textContent ?? ''));
  const { shown, buttons, close } = passing(button.textContent ?? '', form);
  close.textContent = 'Back';
  buttons.prepend(yes);
  form.append(make('div', { class: 'failed', role: 'alert' }), buttons);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (name) given.typed = name.value;
    if (why && why.value.trim()) put(given, /** @type {string} */ (reason), why.value.trim());
    Object.assign(form.dataset, { ...button.dataset });
    if (!await act(form, given, nextOf(button))) return;
    shown.close();
    button.closest('dialog')?.close();
  });
}

/** The second change of an element. @param {HTMLElement} element @returns {Step | null} */
const nextOf = (element) => (element.dataset.then ? JSON.parse(element.dataset.then) : null);

/** The fields of a form by name. @param {HTMLFormElement} form @returns {(HTMLInputElement | HTMLTextAreaElement)[]} */
const fieldsOf = (form) => /** @type {any[]} */ ([...form.elements]).filter((field) => field.name);

/** @param {HTMLElement} opener @param {HTMLFormElement} form */
function fill(opener, form) {
  const values = JSON.parse(opener.dataset.values ?? '{}');
  for (const field of fieldsOf(form)) {
    const value = values[field.name];
    if (value !== undefined || field.dataset.had) field.value = value ?? '';
    field.dataset.had = value ? 'yes' : '';
    if (field.dataset.fixed !== undefined) /** @type {HTMLInputElement} */ (field).readOnly = Boolean(value);
  }
  placeOf(form).textContent = '';
}

/** What a field gives; null: nothing. Throws SyntaxError. @param {HTMLInputElement | HTMLTextAreaElement} field @returns {unknown} */
function valueOf(field) {
  if (field.dataset.kind === 'boolean') return /** @type {HTMLInputElement} */ (field).checked;
  if (field.dataset.kind === 'json' && field.value) return JSON.parse(field.value);
  return field.value || (field.type === 'hidden' ? '' : null);
}

/** @param {HTMLFormElement} form */
async function submit(form) {
  const given = JSON.parse(form.dataset.arguments ?? '{}');
  const next = nextOf(form);
  for (const field of fieldsOf(form)) {
    let value;
    try {
      value = valueOf(field);
    } catch {
      placeOf(form).textContent = `${field.name} is not JSON.`;
      return;
    }
    if (field.name.startsWith('then.')) put(next?.arguments, field.name.slice('then.'.length), value);
    else if (value !== null || field.dataset.had) put(given, field.name, value);
  }
  const shown = /** @type {HTMLDialogElement | null} */ (form.closest('dialog'));
  if (await act(form, given, next)) {
    form.reset();
    shown?.close();
  } else if (shown) merge(form, shown);
}

/** If somebody else has changed what is edited, shows that; what was typed stays. @param {HTMLFormElement} form @param {HTMLElement} shown */
async function merge(form, shown) {
  const [seen, mine] = ['expectedModifiedAt', 'body'].map((end) => fieldsOf(form).find((field) => field.name.endsWith(`.${end}`)));
  const key = fieldsOf(form).find((field) => field.name.endsWith('.key'));
  if (!seen || !mine || !key) return;
  for (const region of regions) await region.read();
  for (const opener of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(`[data-opens="${shown.id}"]`))) {
    const values = JSON.parse(opener.dataset.values ?? '{}');
    if (values[key.name] !== key.value || values[seen.name] === seen.value) continue;
    seen.value = values[seen.name];
    const theirs = make('textarea', { readonly: '', rows: '6' });
    /** @type {HTMLTextAreaElement} */ (theirs).value = values[mine.name] ?? '';
    shown.querySelector('.theirs')?.remove();
    placeOf(form).before(make('label', { class: 'field theirs' }, make('span', {}, 'It was changed meanwhile to this. Merge it into yours, and save again.'), theirs));
  }
}

/** The actions of an item. @param {string} url @param {string} title */
async function openMenu(url, title) {
  const answer = await fetch(url).catch(() => null);
  if (!answer?.ok) return toast('The actions of this item cannot be read now.');
  const { rows } = await answer.json();
  const list = make('menu', { class: 'actions menu' });
  for (const [, , html] of rows) list.append(nodes(html));
  for (const opener of /** @type {NodeListOf<HTMLElement>} */ (list.querySelectorAll('[data-opens]'))) {
    if (!byId(opener.dataset.opens ?? '')) opener.closest('li')?.remove(); // its form is on the item's page
  }
  passing(title, list);
}

// --- events ---

document.addEventListener('click', async (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  const found = /** @type {HTMLElement | null} */ (target.closest?.('button, [data-choose]'));
  if (!found) return;
  if (found.dataset.closes !== undefined) found.closest('dialog')?.close();
  else if (found.dataset.menu) openMenu(found.dataset.menu, found.getAttribute('aria-label') ?? 'Actions');
  else if (found.dataset.unchoose !== undefined) chooseNone();
  else if (found.dataset.choose !== undefined) choose(/** @type {HTMLElement} */ (keyOf(found)));
  else if (found.dataset.opens) {
    const shown = /** @type {HTMLDialogElement} */ (byId(found.dataset.opens));
    found.closest('dialog')?.close();
    shown.querySelector('.theirs')?.remove();
    fill(found, /** @type {HTMLFormElement} */ (shown.querySelector('form')));
    open(shown);
  } else if (found.dataset.action) {
    const given = every(found, JSON.parse(found.dataset.arguments ?? '{}'));
    const many = found.dataset.each && chosen.size > MANY ? document.querySelector('[data-project]') : null;
    const typed = many ? many.getAttribute('data-project') ?? '' : found.dataset.typed ?? '';
    const question = (found.dataset.confirm ?? (typed && `This changes ${chosen.size} items.`)).replace('{n}', String(chosen.size));
    if (question) confirm(found, given, question, typed);
    else if (await act(found, given, nextOf(found))) found.closest('dialog')?.close();
  }
});

document.addEventListener('submit', (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (!form.dataset.action || event.defaultPrevented) return;
  event.preventDefault();
  submit(form);
});
