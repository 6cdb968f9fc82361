// What the pages need beside htmx: pictures, keys, the theme, and a few forms.
"use strict";

// The value of a property is `light-dark(…)`; only where it is used does it become one colour.
function colour(name) {
  const probe = document.body.appendChild(document.createElement("span"));
  probe.style.color = `var(${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// --- pictures: <figure data-plot="…"> becomes a uPlot ---
const drawn = new Map();

const format = (percent) => (_, values) =>
  values.map((value) => (value == null ? "" : percent ? `${Math.round(value * 100)} %` : String(+value.toPrecision(4))));

function seriesOf(each) {
  const edge = each.kind === "edge";
  return {
    label: each.label,
    stroke: () => colour(edge ? "--soft-line" : "--accent"),
    width: edge ? 1 : 2,
    dash: edge ? [4, 4] : undefined,
    points: { show: !edge && each.values.length < 60, size: 6 },
  };
}

function optionsOf(data, width) {
  const axis = { stroke: () => colour("--soft"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false } };
  const edges = data.series.flatMap((each, place) => (each.kind === "edge" ? [place + 1] : []));
  return {
    width,
    height: 220,
    cursor: { y: false },
    legend: { show: data.series.length > 1, live: false },
    scales: { x: { time: false }, y: data.range ? { range: data.range } : {} },
    axes: [
      { ...axis, label: data.xLabel, labelSize: 22, space: 70 },
      { ...axis, size: 60, values: format(data.percent) },
    ],
    series: [{ label: data.xLabel }, ...data.series.map(seriesOf)],
    bands: edges.length === 2 ? [{ series: edges, fill: () => colour("--band") }] : [],
  };
}

function draw(figure) {
  drawn.get(figure)?.destroy();
  figure.replaceChildren();
  const data = JSON.parse(figure.dataset.plot);
  const width = Math.max(240, figure.clientWidth);
  drawn.set(figure, new uPlot(optionsOf(data, width), [data.x, ...data.series.map((each) => each.values)], figure));
}

function drawAll() {
  for (const figure of drawn.keys()) {
    if (!figure.isConnected) {
      drawn.get(figure).destroy();
      drawn.delete(figure);
    }
  }
  document.querySelectorAll("figure[data-plot]").forEach(draw);
}

// --- theme ---
function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function switchTheme() {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
  drawAll();
}

// --- keys ---
let waiting = false;

function isTyping(target) {
  return target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]");
}

function takeKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (waiting) {
    waiting = false;
    document.querySelector(`nav [data-key="${CSS.escape(event.key)}"]`)?.click();
    return;
  }
  if (event.key === "g") {
    waiting = true;
    setTimeout(() => { waiting = false; }, 1500);
  } else if (event.key === "/") {
    const field = document.querySelector("main input:not([type=hidden]):not([type=checkbox]), main select");
    if (field) { event.preventDefault(); field.focus(); }
  } else if (event.key === "?") {
    document.getElementById("help")?.showModal();
  }
}

// --- forms: two marked runs, the slider's number ---
function sendPair(event) {
  const form = event.target;
  if (form.id !== "pick") return;
  event.preventDefault();
  const [left, right] = [...form.querySelectorAll("input[name=pick]:checked")].map((box) => box.value);
  if (!left) return;
  const wanted = new URL(form.action);
  wanted.searchParams.set("left", left);
  if (right) wanted.searchParams.set("right", right);
  location.assign(wanted);
}

function showPlace(event) {
  const shown = event.target.id === "at" && document.getElementById("at-shown");
  if (shown) shown.textContent = event.target.value;
}

document.addEventListener("DOMContentLoaded", () => {
  drawAll();
  document.getElementById("theme")?.addEventListener("click", switchTheme);
  document.getElementById("keys")?.addEventListener("click", () => document.getElementById("help").showModal());
  document.addEventListener("keydown", takeKey);
  document.addEventListener("submit", sendPair);
  document.addEventListener("input", showPlace);
  document.addEventListener("htmx:afterSettle", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; drawAll(); } });
});
