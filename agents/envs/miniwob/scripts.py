"""JavaScript injected into pages: how a task starts, and what is read from its page. Agents cannot access it."""

from __future__ import annotations

from typing import Final

LISTEN: Final = """
(() => {
  const started = performance.now();
  const Real = Date;
  const now = () => 1750000000000 + Math.floor(performance.now() - started);
  window.Date = class extends Real {
    constructor(...parts) { parts.length === 0 ? super(now()) : super(...parts); }
    static now() { return now(); }
  };
  const taken = [];
  Object.defineProperty(window, '__taken', {value: taken});
  const place = (element) =>
    element.id || `${element.localName}[${[...document.getElementsByTagName(element.localName)].indexOf(element)}]`;
  const listen = (event) => {
    const element = event.target;
    if (!event.isTrusted || !(element instanceof Element)) return;
    const payload = {};
    if (typeof element.value === 'string') payload.value = element.value;
    if (typeof element.checked === 'boolean') payload.checked = element.checked;
    const words = (element.textContent || '').trim().slice(0, 200);
    if (words) payload.text = words;
    taken.push({operation: event.type, target_type: element.localName, target_id: place(element), payload});
  };
  for (const kind of ['click', 'change', 'submit']) window.addEventListener(kind, listen, true);
})();
"""
"""Runs before the page's own scripts: a clock with a fixed start, and a log of the agent's actions.

Only trusted events, which the browser makes from mouse and keyboard, are logged; scripted events are left out.
"""

START: Final = """
(seed) => {
  Math.seedrandom(seed);
  core.EPISODE_MAX_TIME = 2147483647;
  if (window.jQuery) jQuery.fx.off = true;
  core.startEpisodeReal();
  core.hideDisplay();
  document.getElementById('click-canvas').style.display = 'none';
  window.scrollTo(0, 0);
  core.startEpisode = () => {};
  Object.defineProperty(window, '__begun', {value: true});
}
"""
"""Seed and start the task, only once, so that its first result stays. Animations end at once; the
display of the last reward and the click markers are hidden.
"""

RESULT: Final = """
() => window.__begun === true
  ? {begun: true, done: WOB_DONE_GLOBAL === true, raw: WOB_RAW_REWARD_GLOBAL}
  : {begun: false, done: false, raw: 0}
"""

TAKEN: Final = "() => window.__taken"

STANDS: Final = """
() => {
  const left = new Set(['reward-display', 'sync-task-cover', 'click-canvas']);
  let elements = 0;
  const read = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.nodeType !== Node.ELEMENT_NODE) return null;
    if (left.has(node.id) || node.localName === 'script' || node.localName === 'style') return null;
    elements += 1;
    const attributes = [...node.attributes].map((a) => [a.name, a.value]).filter(([name]) => name !== 'data-tampered');
    attributes.sort();
    const held = ['value', 'checked', 'selectedIndex', 'disabled'].map((name) => {
      const value = node[name];
      return ['string', 'boolean', 'number'].includes(typeof value) ? value : null;
    });
    return [node.localName, attributes, held, [...node.childNodes].map(read).filter((child) => child !== null)];
  };
  return {page: JSON.stringify(read(document.body)), elements};
}
"""
"""The whole page as one canonical text: elements, attributes, words, form values. Reading changes nothing."""

LOOK: Final = """
() => {
  const left = new Set(['query', 'reward-display', 'sync-task-cover', 'click-canvas']);
  const controls = new Set(['input', 'textarea', 'select', 'button']);
  const drawn = new Set(['circle', 'ellipse', 'rect', 'polygon', 'path', 'line']);
  const shown = [];
  const tell = (element, rect, facts) => {
    if (!rect || rect.width < 1 || rect.height < 1) return;
    const shows = (x, y) => {
      const hit = document.elementFromPoint(x, y);
      return hit !== null && (hit === element || element.contains(hit) || hit.contains(element));
    };
    const parts = [[0.5, 0.5], [0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]];
    const points = parts.map(([x, y]) => [rect.left + rect.width * x, rect.top + rect.height * y].map(Math.floor));
    const at = points.find(([x, y]) => shows(x, y));
    if (at === undefined) return;
    const box = [rect.left, rect.top, rect.width, rect.height].map(Math.round);
    shown.push({kind: element.localName, box, at, ...facts});
  };
  const control = (element) => {
    const facts = {is_enabled: !element.disabled, is_focused: document.activeElement === element};
    if (element.localName === 'button') facts.text = element.textContent.trim();
    if (element.labels && element.labels.length > 0) facts.label = element.labels[0].textContent.trim();
    if (element.localName === 'input') facts.type = element.type;
    if (element.type === 'checkbox' || element.type === 'radio') facts.is_checked = element.checked;
    else if (element.type === 'password') facts.value = '*'.repeat(element.value.length);
    else if (element.localName !== 'button') facts.value = element.value;
    if (element.localName === 'select') facts.options = [...element.options].map((option) => option.text);
    tell(element, element.getBoundingClientRect(), facts);
  };
  const walk = (element) => {
    const style = getComputedStyle(element);
    if (left.has(element.id) || style.display === 'none' || style.visibility === 'hidden') return;
    if (['script', 'style'].includes(element.localName)) return;
    if (controls.has(element.localName)) return control(element);
    if (drawn.has(element.localName)) tell(element, element.getBoundingClientRect(), {color: style.fill});
    else if (element.childNodes.length === 0 && style.backgroundColor !== 'rgba(0, 0, 0, 0)')
      tell(element, element.getBoundingClientRect(), {color: style.backgroundColor});
    for (const child of element.childNodes) {
      if (child.nodeType === Node.ELEMENT_NODE) walk(child);
      else if (child.nodeType === Node.TEXT_NODE && child.data.trim()) {
        const range = document.createRange();
        range.selectNodeContents(child);
        const facts = {text: child.data.replace(/\\s+/g, ' ').trim()};
        tell(element, [...range.getClientRects()].find((rect) => rect.width >= 1), facts);
      }
    }
  };
  walk(document.body);
  return {instruction: typeof core === 'undefined' ? '' : core.getUtterance(), shown};
}
"""
"""Everything a person sees, with its box: words, controls and coloured shapes in the window that are not covered."""
