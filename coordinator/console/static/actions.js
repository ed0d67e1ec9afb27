// What people change: buttons and forms send what stands in their attributes (console/acts/buttons.py), show what was refused
// beside them, and repeat a request whose answer was lost under the same id, so that nothing is done twice.

import { choose, chooseNone, chosen, every, keyOf } from './chosen.js';
import { refresh, SILENT_MS } from './live.js';
import { byId, element, nodes, toast } from './main.js';

/** @typedef {{action: string, arguments: any}} Step */
/** @typedef {{problem?: string, said?: string, lost?: boolean, result?: any}} Told */
/** @typedef {HTMLInputElement | HTMLTextAreaElement} Field */

const TRIES = 3;
const PAUSE_MS = 1_000;
const MANY = 20; // of more items, a name has to be typed, which the server checks, too (console/acts/large.py)
const LOST = 'No answer came. Try again: what was done already is not done twice.';

/** @type {WeakMap<HTMLElement, {body: string, ids: string[]}>} Of each button whose last answer was lost. */
const lost = new WeakMap();

function newId() { // randomUUID is there with HTTPS only
  const hex = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})/, '$1-$2-4$3-8$4-');
}

/** Puts a value into arguments. @param {any} target @param {string} path such as items.0.title @param {unknown} value */
function put(target, path, value) {
  const names = path.split('.');
  const last = /** @type {string} */ (names.pop());
  for (const name of names) target = target[name] ??= {};
  target[last] = value;
}

// --- requests ---

/** @param {Step} step @param {string} id @returns {Promise<Told>} */
async function post(step, id) {
  const body = JSON.stringify({ ...step.arguments, requestId: id });
  const headers = { 'content-type': 'application/json', 'fleet-console': '1' };
  for (let left = TRIES; ; left -= 1) {
    try {
      const answer = await fetch(step.action, { method: 'POST', headers, body, signal: AbortSignal.timeout(SILENT_MS) });
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

/** Makes changes, one after the other, up to one that is refused. @param {HTMLElement} element @param {Step[]} steps */
async function send(element, steps) {
  const body = JSON.stringify(steps);
  const before = lost.get(element);
  const ids = before?.body === body ? before.ids : steps.map(newId);
  lost.delete(element);
  /** @type {Told} */
  let told = {};
  for (const [number, step] of steps.entries()) {
    told = await post(step, ids[number]);
    if (told.lost) lost.set(element, { body, ids });
    if (told.problem) break;
  }
  return told;
}

/** Where the refusals of a button or form are shown, if not in passing. @param {HTMLElement} element @returns {HTMLElement | null | undefined} */
const placeOf = (element) => element.querySelector('.failed') ?? element.closest('dialog, .bulk')?.querySelector('.failed');

/**
 * Does what a button or form says. Nothing on the page changes before the answer is there.
 * @param {HTMLElement} element @param {any} given its arguments, filled in @param {HTMLElement} [form] where that was
 * @param {Step | null} [next] a second change
 * @returns {Promise<boolean>} whether it is done
 */
async function act(element, given, form = element, next = nextOf(element)) {
  const { action = '', done = '', undo } = element.dataset;
  if (element.ariaBusy) return false;
  const place = placeOf(form);
  if (place) place.textContent = '';
  element.ariaBusy = 'true';
  const { problem, said = done } = await send(element, [{ action, arguments: given }, ...(next ? [next] : [])]);
  element.ariaBusy = null;
  if (problem) {
    if (place) place.textContent = problem;
    if (!place || place.closest('[data-region]')) toast(problem); // its row is replaced, now or soon
    refresh(); // perhaps somebody else was faster
    return false;
  }
  const back = undo && { action, arguments: every(element, { ...JSON.parse(undo), typed: given.typed }) };
  const takeBack = async (/** @type {Step} */ step) => {
    toast((await send(element, [step])).problem || 'Taken back.');
    refresh();
  };
  if (said) toast(said, back ? { label: 'Undo', act: () => takeBack(back) } : undefined);
  if (element.dataset.each) chooseNone();
  refresh();
  return true;
}

// --- dialogs ---

/** Opens a dialog of the page. @param {string} id @param {string} [title] */
function open(id, title) {
  const shown = /** @type {HTMLDialogElement} */ (byId(id));
  const from = /** @type {HTMLElement | null} */ (document.activeElement);
  shown.addEventListener('close', () => { (from?.isConnected ? from : byId('main')).focus(); }, { once: true });
  if (title) /** @type {HTMLElement} */ (shown.querySelector('h2')).textContent = title;
  /** @type {HTMLElement} */ (placeOf(shown)).textContent = '';
  shown.showModal();
  return shown;
}

/**
 * Asks before a change.
 * @param {HTMLElement} element with the change @param {any} given its arguments @param {string} question @param {string} typed
 * @param {(form: HTMLElement) => Promise<boolean>} go makes it; refusals are shown in the form
 */
function confirm(element, given, question, typed, go) {
  const verb = (element.querySelector('[type=submit]') ?? element).textContent ?? '';
  const form = /** @type {HTMLFormElement} */ (byId('confirm').firstElementChild);
  const [why, name] = fieldsOf(form);
  const [reasons, names] = form.querySelectorAll('label');
  const { reason, needed } = element.dataset;
  reasons.hidden = !reason;
  why.required = Boolean(needed);
  names.hidden = !typed;
  name.required = Boolean(typed);
  /** @type {HTMLElement} */ (names.firstElementChild).textContent = `Type ${typed} to go on`;
  form.reset();
  /** @type {HTMLElement} */ (form.querySelector('p')).textContent = question;
  /** @type {HTMLElement} */ (form.querySelector('[type=submit]')).textContent = verb;
  const shown = open('confirm', verb);
  form.onsubmit = async (event) => {
    event.preventDefault();
    if (typed) given.typed = name.value;
    const [list, , field] = (reason ?? '').split('.'); // of each that is changed, or of the one change
    for (const one of field ? given[list] : [given]) if (reason && why.value.trim()) one[field ?? list] = why.value.trim();
    if (!await go(form)) return;
    shown.close();
    element.closest('dialog')?.close();
  };
}

/** The second change of an element. @param {HTMLElement} element @returns {Step | null} */
const nextOf = (element) => (element.dataset.then ? JSON.parse(element.dataset.then) : null);

/** The fields of a form by name. @param {HTMLFormElement} form @returns {Field[]} */
const fieldsOf = (form) => /** @type {any[]} */ ([...form.elements]).filter((field) => field.name);

/** Fills a form with what its opener has of it. @param {HTMLElement} opener @param {HTMLFormElement} form */
function fill(opener, form) {
  const values = JSON.parse(opener.dataset.values ?? '{}');
  for (const theirs of form.querySelectorAll('.theirs')) theirs.remove();
  delete form.dataset.refused;
  for (const field of fieldsOf(form)) {
    const value = values[field.name] ?? '';
    if (field.name in values || field.dataset.shown) field.value = value;
    field.dataset.shown = value;
    if (field.dataset.fixed !== undefined) /** @type {HTMLInputElement} */ (field).readOnly = Boolean(value);
  }
}

/** What a field gives; null: nothing. Throws SyntaxError. @param {Field} field @param {string} [text] @returns {unknown} */
function valueOf(field, text = field.value) {
  if (field.dataset.kind === 'boolean') return /** @type {HTMLInputElement} */ (field).checked;
  if (field.dataset.kind === 'json' && text) return JSON.parse(text);
  return text || (field.type === 'hidden' ? '' : null);
}

/** A field of an item that may consist of several: items.0.budget of items.0.budget.tokens. @param {Field} field */
const wholeOf = (field) => field.name.split('.').slice(0, 3).join('.');

/** @param {HTMLFormElement} form */
async function submit(form) {
  const given = JSON.parse(form.dataset.arguments ?? '{}');
  const next = nextOf(form);
  const shown = /** @type {HTMLDialogElement | null} */ (form.closest('dialog'));
  const edits = form.dataset.edits !== undefined;
  const typed = fieldsOf(form).filter((field) => field.type !== 'hidden' && field.value !== field.dataset.shown);
  const changed = new Set(typed.map(wholeOf));
  if (edits && !changed.size) return shown?.close();
  for (const field of fieldsOf(form)) {
    let value;
    try {
      value = valueOf(field);
    } catch {
      /** @type {HTMLElement} */ (placeOf(form)).textContent = `${field.name} is not JSON.`;
      return;
    }
    if (edits && field.type !== 'hidden') {
      if (!changed.has(wholeOf(field))) continue;
      put(given, field.name, value);
      put(given, field.name.replace('items.', 'shown.'), valueOf(field, field.dataset.shown));
    } else if (field.name.startsWith('then.')) put(next?.arguments, field.name.slice('then.'.length), value);
    else if (value !== null || field.dataset.shown) put(given, field.name, value);
  }
  const go = async (/** @type {HTMLElement} */ place) => {
    const done = await act(form, given, place, next);
    if (!done) form.dataset.refused = 'yes';
    const same = `form[data-about="${CSS.escape(form.dataset.about ?? '')}"]`; // its row may have been replaced meanwhile
    for (const one of done ? [form, ...document.querySelectorAll(same)] : []) /** @type {HTMLFormElement} */ (one).reset();
    if (done) shown?.close();
    return done;
  };
  if (form.dataset.confirm) confirm(form, given, form.dataset.confirm, '', go);
  else await go(form);
}

/** Shows what somebody else has made of the fields meanwhile; what was typed stays. @param {HTMLFormElement} form */
function merge(form) {
  const openers = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(`[data-opens="${form.closest('dialog')?.id}"]`));
  const names = fieldsOf(form).filter((field) => /\.(id|itemId|key)$/.test(field.name));
  const now = [...openers].map((one) => JSON.parse(one.dataset.values ?? '{}'))
    .find((values) => names.every((field) => values[field.name] === field.value));
  for (const field of now ? fieldsOf(form) : []) {
    const theirs = now[field.name] ?? '';
    if (theirs === (field.dataset.shown ?? '')) continue;
    if (field.type === 'hidden' || field.value === field.dataset.shown) field.value = theirs;
    else if (field.value !== theirs) {
      const said = 'It was changed meanwhile to this. Merge it into yours, and save again.';
      const text = element('textarea', { readOnly: true, rows: Math.min(6, theirs.split('\n').length + 1), value: theirs });
      field.closest('label')?.after(element('label', { className: 'field theirs' }, element('span', {}, said), text));
    }
    field.dataset.shown = theirs;
  }
}

/** The actions of an item. @param {string} url @param {string} title */
async function openMenu(url, title) {
  const answer = await fetch(url).catch(() => null);
  if (!answer?.ok) return toast('The actions of this item cannot be read now.');
  const { rows } = await answer.json();
  const list = /** @type {HTMLElement} */ (byId('menu').querySelector('menu'));
  list.replaceChildren(...rows.map((/** @type {string[]} */ [, , html]) => nodes(html)));
  for (const opener of /** @type {NodeListOf<HTMLElement>} */ (list.querySelectorAll('[data-opens]'))) {
    if (!byId(opener.dataset.opens ?? '')) opener.closest('li')?.remove(); // its form is on the item's page
  }
  open('menu', title);
}

// --- events ---

document.addEventListener('region', () => { // read again because something was refused
  for (const form of document.querySelectorAll('dialog[open] form[data-refused]')) merge(/** @type {HTMLFormElement} */ (form));
});

document.addEventListener('click', async (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  const found = /** @type {HTMLElement | null} */ (target.closest?.('button, [data-choose]'));
  if (!found) return;
  if (found.dataset.menu) openMenu(found.dataset.menu, found.getAttribute('aria-label') ?? 'Actions');
  else if (found.dataset.unchoose !== undefined) chooseNone();
  else if (found.dataset.choose !== undefined) choose(/** @type {HTMLElement} */ (keyOf(found)));
  else if (found.dataset.opens) {
    found.closest('dialog')?.close();
    fill(found, /** @type {HTMLFormElement} */ (open(found.dataset.opens).querySelector('form')));
  } else if (found.dataset.action) {
    const given = every(found, JSON.parse(found.dataset.arguments ?? '{}'));
    const many = found.dataset.each && chosen.size > MANY ? document.querySelector('[data-project]') : null;
    const typed = many ? many.getAttribute('data-project') ?? '' : found.dataset.typed ?? '';
    const question = (found.dataset.confirm ?? (typed && `This changes ${chosen.size} items.`)).replace('{n}', String(chosen.size));
    if (question) confirm(found, given, question, typed, (form) => act(found, given, form));
    else if (await act(found, given)) found.closest('dialog')?.close();
  }
});

document.addEventListener('submit', (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (!form.dataset.action || event.defaultPrevented) return;
  event.preventDefault();
  submit(form);
});
