// Keeps the regions of a page current: one event stream while the page is visible, and reads of what has changed.

import { byId, say, serverTime, tickTimes } from './main.js';
import { hold, keepTyped, parsed, replace, showHead, steadily, typed } from './rows.js';

const page = /** @type {HTMLElement | null} */ (document.querySelector('[data-live]'));
const HIDDEN_MS = 30_000; // a hidden page keeps its stream for so long
const AWAY_MS = 3_000; // then the page says how old it is
export const SILENT_MS = 45_000; // a stream says something every 15 s, even if nothing changes: otherwise nobody is there any more
const AGAIN_MS = 5_000; // after a read that failed: nothing else asks for that region meanwhile
const AWAY = 'the fleet does not answer';
const FLASH_MS = 600;

let paused = false;
let awaySince = 0; // when the page ceased to be current
let cut = ''; // why the stream brings nothing; empty: it does
let heardAt = 0; // when the stream last brought something
let look = 1; // seconds between looks at changes that a region does not show
/** @type {EventSource | null} */
let stream = null;
let position = page?.dataset.position ?? '';
let acted = ''; // when somebody has changed something here

/**
 * What a region shows now; rows as [key, digest, HTML if it is not here yet].
 * @typedef {{rows: [string, string, string?][], total: number, offset: number, more: boolean, head: string, again: number,
 *   now: number}} Found
 */

/** @param {string} id */
const digits = (id) => id.replaceAll('-', '').toLowerCase();

/** One region, read again when it may have changed: one request at a time. */
export class Region {
  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = element;
    this.watch = (element.dataset.watch ?? '').split(' ').filter(Boolean);
    /** @type {AbortController | null} */
    this.running = null;
    this.again = false;
    this.why = ''; // the last read has failed
    this.readAt = Date.now();
    this.timer = 0;
    this.window = Infinity; // rows at most, if it has a window of a list
    this.pointed = false;
    this.waiting = false; // rows that have changed their places wait
    this.forced = false;
    /** @type {HTMLElement | null} */
    this.news = null; // the button behind which they wait
    element.addEventListener('pointerenter', (event) => { this.pointed = event.pointerType === 'mouse'; });
    element.addEventListener('pointerleave', () => { this.pointed = false; this.left(); });
    element.addEventListener('focusout', () => setTimeout(() => this.left()));
    const { seconds } = element.dataset;
    if (seconds) setInterval(() => { if (awake() && !this.why) this.read(); }, Number(seconds) * 1000);
    if (element.dataset.again) this.soon(Number(element.dataset.again) * 1000);
  }

  /** @param {Record<string, string[]>} changed ids by toolset */
  concerns(changed) {
    const toolsets = this.watch.filter((toolset) => changed[toolset]);
    if (!toolsets.length) return false;
    const own = digits(this.element.dataset.own ?? ''); // the beginning of an item's id is enough in a path
    if (own) return toolsets.some((toolset) => changed[toolset].some((id) => digits(id).startsWith(own))) && 'shown';
    const shown = new Set(this.rows().map((row) => (row.dataset.key ?? '').replace(/^[a-z]+:/, '')));
    return toolsets.some((toolset) => changed[toolset].some((id) => shown.has(id))) ? 'shown' : 'perhaps';
  }

  /** @returns {HTMLElement[]} */
  rows() {
    return [.../** @type {HTMLCollectionOf<HTMLElement>} */ (this.element.children)].filter((row) => row.dataset.key);
  }

  get held() { return this.pointed || this.element.contains(document.activeElement); }

  /** Shows at once what waits. */
  release() {
    this.forced = true;
    this.read();
  }

  left() { if (this.waiting && !this.held) this.release(); }

  /** Reads it, at once or when the time between two looks is over. @param {number} [inMs] */
  soon(inMs = 0) {
    if (this.timer && inMs) return;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => { this.timer = 0; this.read(); }, inMs);
  }

  async read() {
    if (this.running) {
      this.again = true;
      return;
    }
    const running = (this.running = new AbortController());
    this.again = false;
    this.readAt = Date.now();
    try {
      const have = this.rows().map((row) => row.dataset.digest).join(',');
      const headers = { 'fleet-have': have, 'fleet-at': position + acted };
      const signal = AbortSignal.any([running.signal, AbortSignal.timeout(SILENT_MS)]);
      const answer = await fetch(this.element.dataset.src ?? '', { headers, signal });
      if (answer.status === 401 && !document.querySelector('dialog[open]') && !typed(document).length) location.reload();
      if (answer.status === 404) return gone();
      const told = await answer.json();
      if (this.running !== running) return;
      this.why = answer.ok ? '' : told.error.message; // such as that calls of agents come first
      if (answer.ok) steadily(!this.forced && this.element.dataset.offset === String(told.offset), () => this.show(told));
    } catch {
      if (this.running === running) this.why = AWAY;
    } finally {
      if (this.running === running) {
        this.running = null;
        state();
        if (this.why || this.again) this.soon(this.why ? AGAIN_MS : 0);
      }
    }
  }

  /** Reads another URL instead; an answer to the present request is dropped. @param {string} url */
  go(url) {
    this.element.dataset.src = url;
    this.forced = true;
    this.running?.abort();
    this.running = null;
    this.read();
  }

  /** @param {Found} found */
  show(found) {
    serverTime(found.now);
    const { region } = this.element.dataset;
    showHead(region ?? '', found.head);
    const empty = document.querySelector(`[data-empty-of="${region}"]`);
    if (empty) /** @type {HTMLElement} */ (empty).hidden = found.rows.length > 0;
    this.fill(found);
    this.element.dispatchEvent(new CustomEvent('region', { bubbles: true, detail: found }));
    if (found.again && awake()) this.soon(found.again * 1000);
  }

  /** Shows the rows of an answer, in its order if nobody is at them. @param {Found} found */
  fill(found) {
    const same = this.element.dataset.offset === String(found.offset) && this.element instanceof HTMLElement;
    if (same && this.held && !this.forced && hold(this, found)) return;
    this.forced &&= this.again; // what is read now may be from before
    this.waiting = false;
    if (this.news) this.news.hidden = true;
    for (const row of this.rows()) row.classList.remove('gone');
    this.arrange(found);
  }

  /** @param {Found} found */
  arrange(found) {
    const moved = this.element.dataset.offset !== String(found.offset); // then rows are other ones, not changed ones
    const known = new Map(this.rows().map((row) => [row.dataset.key, row]));
    const kept = new Set(found.rows.map(([key]) => key));
    // Before others move, because an element that moves loses the focus.
    for (const [key, row] of known) {
      if (kept.has(key ?? '')) continue;
      keepTyped(row, null);
      row.remove();
    }
    /** @type {Element | null} */
    let after = null;
    for (const [key, , html] of found.rows) {
      let row = known.get(key);
      if (html !== undefined) {
        const fresh = parsed(this.element, html);
        tickTimes(fresh);
        if (!moved) {
          fresh.classList.add('changed');
          setTimeout(() => fresh.classList.remove('changed'), FLASH_MS);
        }
        if (row) replace(row, fresh);
        row = fresh;
      }
      if (!row) continue; // it was removed meanwhile; the next read brings it
      /** @type {Element | null} */
      const place = after ? after.nextElementSibling : this.element.firstElementChild;
      if (place !== row) this.element.insertBefore(row, place);
      after = row;
    }
    this.element.dataset.total = String(found.total);
    this.element.dataset.offset = String(found.offset);
  }
}

function gone() {
  if (!paused) pause(); // what the page shows stays as it was
  byId('banner').textContent = 'This is not there any more: what you see is as it was.';
  byId('banner').hidden = false;
}

export const regions = [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-region]'))].map(
  (element) => new Region(element),
);

/** Has all regions read again, and not what was read before a change for some other tab; whoever has made it waits for it. */
export function refresh() {
  acted = `-${Date.now()}`;
  for (const region of regions) {
    region.forced = true;
    region.soon();
  }
}

/** @param {{changed: Record<string, string[]>, reset: boolean, look: number, now: number}} frame */
function heard(frame) {
  serverTime(frame.now);
  look = frame.look;
  for (const region of regions) {
    const concerned = frame.reset ? 'perhaps' : region.concerns(frame.changed);
    if (!concerned || region.why) continue;
    const wait = concerned === 'shown' ? 0 : Math.max(0, region.readAt + look * 1000 - Date.now());
    region.soon(frame.reset ? Math.random() * look * 1000 : wait);
  }
}

/** Whether the page is to be kept current; a page about no project has no stream, and only looks now and then. */
const awake = () => !paused && !document.hidden && Boolean(stream || !page);

// A browser has six connections to an origin: tabs that are hidden leave theirs to the one that is shown.
const tabs = new BroadcastChannel('live');
tabs.onmessage = () => { if (document.hidden) disconnect(); };

function connect() {
  if (stream || paused || !page || document.hidden) return;
  tabs.postMessage('');
  heardAt = Date.now();
  stream = new EventSource(`${page.dataset.live}?after=${encodeURIComponent(position)}`);
  stream.onopen = () => state('');
  stream.onmessage = (event) => {
    heardAt = Date.now();
    page.dataset.position = position = event.lastEventId;
    heard(JSON.parse(event.data));
  };
  stream.addEventListener('beat', () => { heardAt = Date.now(); });
  stream.addEventListener('store', (event) => {
    if (event.data === 'away') return state(AWAY);
    state('');
    for (const region of regions) region.soon(Math.random() * look * 1000);
  });
  stream.onerror = () => {
    state(AWAY);
    if (stream?.readyState === EventSource.CLOSED) {
      disconnect();
      regions[0]?.soon(); // whoever is signed out learns it from this
      setTimeout(connect, 2_000 + Math.random() * 2_000);
    }
  };
}

function disconnect() {
  stream?.close();
  stream = null;
}

/** Why the page is not current; empty: it is. */
const why = () => cut || (regions.find((region) => region.why)?.why ?? '');

/** Shows whether the page is current. @param {string} [stopped] why the stream brings nothing, if that has changed */
function state(stopped = cut) {
  cut = stopped;
  const shown = byId('live');
  const name = paused ? 'paused' : why() ? 'away' : 'live';
  byId('live-text').textContent = name !== 'away' ? name : cut ? 'connecting' : 'stale';
  if (shown.dataset.state === name) return;
  shown.dataset.state = name;
  if (name === 'away') awaySince = Date.now();
  else byId('banner').hidden = true;
}

setInterval(() => {
  if (stream && Date.now() - heardAt > SILENT_MS) { stream.close(); stream.onerror?.(new Event('error')); }
  const banner = byId('banner');
  if (byId('live')?.dataset.state !== 'away' || document.hidden || Date.now() - awaySince < AWAY_MS) return;
  const text = `What you see is ${Math.round((Date.now() - awaySince) / 1000)} s old: ${why()}.`;
  if (banner.hidden) say(text);
  banner.textContent = text;
  banner.hidden = false;
}, 1000);

let hiding = 0;
document.addEventListener('visibilitychange', () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = window.setTimeout(disconnect, HIDDEN_MS);
  else connect();
});

export function pause() {
  paused = !paused;
  const button = byId('pause');
  button?.setAttribute('aria-pressed', String(paused));
  if (button) button.textContent = paused ? 'resume' : 'pause';
  (paused ? disconnect : connect)();
  state();
}
byId('pause')?.addEventListener('click', pause);
connect();
