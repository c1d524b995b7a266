"use strict";
const $ = id => document.getElementById(id);
const TABS = ["search", "map", "audit", "found", "classes"];
const COLOURS = ["#4477cc", "#dd7733", "#2a9d67", "#cc4455", "#8866cc", "#a07a3a", "#d65fa5", "#6f7785", "#a3a52e", "#27a6b5", "#e3a008", "#5a4fcf"];
const KINDS = {
  label: ["wrong labels", "As many labels as seem to be wrong, the surest first."],
  missing: ["missing labels", "Rows that seem to lack a label."],
  unlabelled: ["without label", "What rows without a label look like, most certain first."],
  duplicate: ["duplicates", "Equal or nearly equal items. Groups whose labels differ come first."],
  strange: ["no class", "Isolated items, and items that look like no class."],
  confused: ["confused classes", "The fraction of the items of one class that look like the other."],
  two: ["split classes", "Classes whose items form two groups with few in between."],
};
let info = {columns: {}}, points = null, audited = null, groups = null, kind = "label", chosen = new Set(), known = new Map(), asked = 0, listed = 0, turn = 0, sample = [], edited = "query";
const SUPERSEDED = new Error("another index was chosen");

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, ""); else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter(each => each != null));
  return made;
}
const percent = value => value == null ? "" : value > 0 && value < .005 ? "< 1%" : value < 1 && value >= .995 ? "> 99%" : Math.round(100 * value) + "%";
const breakable = text => text.split(/(?<=[_/.:-])/).flatMap(part => [element("wbr"), part]);
const pictureOf = text => {
  if (typeof text === "object" && text && text.bytes) text = text.bytes;
  if (typeof text !== "string") return null;
  if (text.startsWith("data:image/")) return text;
  const kinds = {"iVBORw0K": "png", "/9j/": "jpeg", "R0lGOD": "gif", "UklGR": "webp"};
  const found = Object.keys(kinds).find(each => text.startsWith(each));
  return found ? `data:image/${kinds[found]};base64,${text}` : null;
};

async function ask(path, body, options = {}) {
  const headers = {"Content-Type": "application/json"}, token = sessionStorage.getItem("token");
  if (token) headers.Authorization = "Bearer " + token;
  const mine = turn;
  const answer = await fetch(path, body ? {method: "POST", headers, body: JSON.stringify(body), ...options} : {headers, ...options}).catch(() => { throw new Error("The service does not answer."); });
  const found = await answer.json();
  if (mine !== turn) throw SUPERSEDED;
  if (answer.status === 401 || answer.status === 403) $("token-button").hidden = false;
  if (!answer.ok) throw new Error(found.error);
  return found;
}
const route = rest => "/v1/" + encodeURIComponent($("index").value) + rest;
async function guarded(work) {
  $("message").hidden = true;
  try { await fresh(); await work(); } catch (error) {
    if (error === SUPERSEDED) return;
    $("message").textContent = error.message; $("message").hidden = false;
    await fresh().catch(() => {}); // what is gone may be the reason
  }
}
const teller = (...ids) => (text, done) => { for (const id of ids) $(id).replaceChildren(text, done == null ? "" : element("progress", {value: done, max: 1, "aria-label": text})); };
const reading = new Map(); // what is being read, by its path and the turn, so that it is asked for once
function patiently(path, tell) {
  const key = turn + path;
  if (!reading.has(key)) reading.set(key, poll(path, tell).finally(() => reading.delete(key)));
  return reading.get(key);
}
async function poll(path, tell) {
  try {
    for (;;) {
      const found = await ask(path);
      if (found.ready) { if (found.version !== info.version) setTimeout(() => fresh().then(leaveOut).catch(() => {}), 0); return found; }
      tell(found.stage ? `${found.stage[0].toUpperCase()}${found.stage.slice(1)}: ${percent(found.done) || "0%"} done ...` : "Still working ...", found.done || 0);
    }
  } catch (error) { tell(""); throw error; }
}

// An index may change while it is looked at. Before each step, what is gone is left out of all that is shown.
async function fresh() {
  if (!info.version) return;
  const found = await ask(route(""));
  if (found.version === info.version) return;
  info = found; known.clear(); sample = [];
  showFacts(); await leaveOut();
}
async function leaveOut() {
  const lists = [points && points.ids, ...Object.values(audited ? audited.findings : {}).map(lines => lines.map(line => line.id)), ...(groups ? groups.list : []).map(each => each.ids), [...document.querySelectorAll("[data-id]")].map(each => each.item)];
  const ids = [...new Set(lists.filter(Boolean).flat())].filter(id => id != null), there = new Set(), step = Math.min(50000, info.limits.max_rows);
  for (let at = 0; at < ids.length; at += step) for (const id of (await ask(route("/select"), {where: {ids: ids.slice(at, at + step), skip_missing: true}})).ids) there.add(id);
  for (const each of document.querySelectorAll("[data-id]")) if (!there.has(each.item)) each.remove();
  for (const id of [...chosen]) if (!there.has(id)) chosen.delete(id);
  count();
  if (audited) for (const name of Object.keys(audited.findings)) audited.findings[name] = audited.findings[name].filter(line => line.id == null || there.has(line.id));
  if (groups) { for (const each of groups.list) each.ids = each.ids.filter(id => there.has(id)); groups.list = groups.list.filter(each => each.ids.length); }
  if (points && points.ids.some(id => !there.has(id))) {
    const kept = [...points.ids.keys()].filter(at => there.has(points.ids[at])), place = new Map(kept.map((at, now) => [at, now]));
    for (const name of ["ids", "x", "y", "label", "looks"]) points[name] = kept.map(at => points[name][at]);
    selected = selected.filter(at => place.has(at)).map(at => place.get(at)); cursor = place.has(cursor) ? place.get(cursor) : -1; box = null;
    if (!$("export-map").hidden) tellSelected();
    if (!$("map").hidden) drawMap();
  }
  tellChanged();
}
function tellChanged() {
  const shown = {map: points, audit: audited, classes: audited, found: groups}[openTab()];
  $("changed").hidden = !shown || shown.version === info.version;
}
const openTab = () => TABS.find(each => !$(each).hidden);

async function describe(items) {
  const missing = items.filter(id => !known.has(id));
  if (missing.length) for (const item of (await ask(route("/shown"), {ids: missing})).items) known.set(item.id, item);
}
function looks(id) {
  const item = known.get(id) || {}, found = {id, picture: null, text: null, label: null};
  for (const [name, value] of Object.entries(item)) {
    found.picture = found.picture || pictureOf(value);
    if (typeof value === "string" && !pictureOf(value) && name !== "id" && value.length > 14 && value.length > (found.text || "").length) found.text = value;
  }
  const names = ["label", "labels", "class", "category", "target", "y", (points || {}).column, (audited || {}).column];
  const name = names.find(each => each && item[each] != null)
    || Object.keys(item).find(each => each !== "id" && (info.labels || []).includes(item[each]));
  if (name) found.label = item[name];
  return found;
}
const image = (found, id) => found.picture ? element("img", {src: found.picture, alt: "item " + id}) : null;

async function search(query) {
  const mine = ++asked;
  keepOnly(query);
  try { await searchFor(query, mine); } catch (error) { if (mine === asked) clearAnswers(); throw error; }
}
function clearAnswers(text = "") { $("answers").replaceChildren(); $("query-looks").hidden = true; $("told").textContent = text; }
async function searchFor(query, mine) {
  const given = typeof query === "object" && !Array.isArray(query) ? query : {query}; // a text or a picture; or a vector or an item
  const k = Number($("k").value), itself = given.query == null || Array.isArray(query) ? null : query;
  const body = {...given, k: itself == null ? k : k + 1, ranking: $("ranking").value || null};
  if ($("where").value.trim()) body.where = $("where").value.trim();
  const began = performance.now(), found = await ask(route("/search"), body), took = performance.now() - began;
  const kept = [...found.ids.keys()].filter(at => found.ids[at] !== itself).slice(0, k); // an item is no answer to itself
  found.ids = kept.map(at => found.ids[at]); found.scores = kept.map(at => found.scores[at]);
  const own = itself == null ? [] : [itself];
  const [, why] = await Promise.all([describe([...own, ...found.ids]), ask(route("/explain"), {...given, ids: found.ids})]);
  if (mine !== asked) return;
  showQuery(given, itself, why);
  $("told").textContent = `${found.ids.length} items in ${took.toFixed(0)} ms`;
  const greater = info.descending[body.ranking || info.rankings[0]], probable = (body.ranking || info.rankings[0]) === "label";
  $("answers").className = "cards" + (found.ids.some(id => looks(id).text) ? " texts" : "");
  $("answers").replaceChildren(...found.ids.map((id, at) => card(id, found.scores[at], why.answers[at], probable && greater)));
}
function keepOnly(query) { // a field that was not asked says nothing about the answers
  const object = typeof query === "object" && !Array.isArray(query);
  if (object) $("query").value = "";
  if (!object || query.text == null) $("text").value = "";
}
function showQuery({query, text, picture}, id, why) {
  const found = picture ? {picture: pictureOf(picture)} : id == null ? {} : looks(id), name = each => `${each.label} (${percent(each.share)})`;
  const title = text ? "Text" : picture ? "A picture" : id == null ? "A vector of " + query.length + " numbers" : "Item " + id, words = text || found.text;
  const lines = [element("div", {}, element("b", {}, title), words ? ": " + words : "")];
  const isNew = why.novelty >= .5, known = why.classes.map(name).join(", ");
  if (isNew) lines.push(element("div", {class: "faint"}, `looks like no known class (${percent(why.novelty)})`));
  if (known) lines.push(element("div", {class: "faint"}, (isNew ? "of the known ones, most like " : "looks like ") + known));
  $("query-looks").replaceChildren(...[found.picture ? element("img", {src: found.picture, alt: title}) : null].filter(Boolean), element("div", {}, ...lines));
  $("query-looks").hidden = false;
}
function card(id, score, why, probable) {
  const found = looks(id), shared = why.classes.map(each => `both are ${each.label}: ${percent(each.share)}`);
  return itemElement(id, "article", {class: "card"},
    element("button", {type: "button", title: "Search for items like this one", "aria-label": "Items like item " + id, onclick: () => like(id)},
      found.picture ? element("div", {class: "view"}, image(found, id)) : null, found.text ? element("div", {class: "words"}, found.text) : null,
      element("div", {class: "about"}, element("b", {}, found.label == null ? "Item " + id : String(found.label)),
        element("span", {class: "faint"}, found.label != null ? " item " + id : why.looks != null ? " looks like " + why.looks : ""),
        probable ? element("div", {class: "meter"}, element("i", {style: `width: ${100 * Math.min(1, Math.max(0, score))}%`})) : null,
        element("div", {class: "faint"}, probable ? percent(score) + " same label" : "score " + score.toPrecision(3)))),
    why.near == null ? null : element("details", {}, element("summary", {}, "Why"),
      ...(shared.length ? shared : ["no class in common"]).map(each => element("div", {}, each)), element("div", {}, `position: cosine ${why.near.toFixed(2)}`)));
}
function itemElement(id, ...details) { const made = element(...details); made.item = id; made.dataset.id = id; return made; } // ids may be numbers
function like(id) {
  edited = "query"; $("query").value = id; open("search"); scrollTo(0, 0);
  return guarded(() => search(id).catch(error => { if ($("query").value === String(id)) $("query").value = ""; throw error; })); // it may be gone
}
function readQuery() {
  const text = $("query").value.trim(), words = $("text-field").hidden ? "" : $("text").value.trim();
  if (words && (edited === "text" || !text)) return {text: words};
  if (!text) throw new Error($("text-field").hidden ? "Give the id of an item, or a vector." : "Give a text, the id of an item, or a vector.");
  if (/[\s,\[]/.test(text) && !(info.id_kind === "str" && !/^[\[\d\s.,eE+-]+\]?$/.test(text))) {
    const numbers = text.replace(/[\[\]]/g, " ").trim().split(/[\s,]+/).map(Number);
    if (numbers.some(Number.isNaN)) throw new Error("A vector is a list of numbers.");
    return numbers;
  }
  return info.id_kind === "str" ? text : Number(text);
}

// the map: items are drawn to a picture once, and what moves is drawn on top
let drawn = null, cursor = -1, box = null, selected = [], off = new Set();
const hue = number => number < 0 ? "#9a9a9a" : number < COLOURS.length ? COLOURS[number] : `hsl(${(number * 137.5) % 360} 60% 50%)`;
const PAD = 14, area = () => [$("canvas").width / devicePixelRatio, $("canvas").height / devicePixelRatio];
const place = at => { const [w, h] = area(); return [PAD + points.x[at] * (w - 2 * PAD), PAD + (1 - points.y[at]) * (h - 2 * PAD)]; };
const visible = at => !off.has(points.label[at]) && !off.has(classOf(at));
const classOf = at => points.label[at] >= 0 ? points.label[at] : points.looks[at];
const nameOf = at => points.label[at] >= 0 ? points.labels[points.label[at]] + ", " : points.looks[at] >= 0 ? `looks like ${points.labels[points.looks[at]]}, ` : "";
async function showMap() {
  if (!points) {
    $("canvas").width = 0; $("legend").replaceChildren();
    $("map-title").textContent = ""; $("map-list").replaceChildren(); $("export-map").hidden = true;
    points = await patiently(route("/map"), teller("map-told"));
    $("map-title").textContent = "Click an item, or drag a box";
    const labels = [...points.labels.keys(), ...(points.label.includes(-1) ? [-1] : [])];
    $("legend").replaceChildren(...labels.slice(0, 60).map(number => element("button", {class: "chip", type: "button", "aria-pressed": "true",
      onclick: event => { off.has(number) ? off.delete(number) : off.add(number); event.currentTarget.setAttribute("aria-pressed", String(!off.has(number))); drawMap(); }},
      element("i", {style: "background: " + hue(number)}), number < 0 ? "no label" : String(points.labels[number]))));
    $("map-told").textContent = points.ids.length < points.rows ? `A sample of ${points.ids.length.toLocaleString()} of ${points.rows.toLocaleString()} items.` : "A click finds the nearest items. A box selects items.";
    if (points.looks.some(each => each >= 0)) $("map-told").textContent += " Pale items have no label: their colour is that of the class that they look like.";
    if (points.layout === "linear") $("map-told").textContent += " With the extra supquant[map], near items are placed together and classes apart.";
  }
  if (!$("map").hidden) drawMap();
}
function drawMap() {
  const canvas = $("canvas"), width = canvas.clientWidth, height = Math.round(Math.min(width, innerHeight * .74, 640)), ratio = devicePixelRatio;
  canvas.width = width * ratio; canvas.height = height * ratio; canvas.style.height = height + "px";
  const pen = canvas.getContext("2d"), size = points.ids.length > 5000 ? 1.6 : points.ids.length > 800 ? 3 : 4.5;
  const alpha = points.ids.length > 5000 ? .6 : .8;
  pen.scale(ratio, ratio);
  for (const sure of [false, true]) { // labelled items are drawn over others
    points.ids.forEach((_, at) => { if (visible(at) && points.label[at] >= 0 === sure) { const [x, y] = place(at); pen.globalAlpha = sure || classOf(at) < 0 ? alpha : alpha / 2; pen.fillStyle = hue(classOf(at)); pen.beginPath(); pen.arc(x, y, size, 0, 7); pen.fill(); } });
  }
  nameClasses(pen);
  drawn = pen.getImageData(0, 0, canvas.width, canvas.height); drawOver();
}
// names are written where most items of a class are, the largest classes first, as long as they do not overlap
function nameClasses(pen) {
  const of = new Map(), taken = [], style = getComputedStyle(document.body), middle = values => values.sort((a, b) => a - b)[values.length >> 1];
  points.ids.forEach((_, at) => { if (classOf(at) >= 0 && visible(at)) { if (!of.has(classOf(at))) of.set(classOf(at), []); of.get(classOf(at)).push(at); } });
  pen.globalAlpha = 1; pen.font = "12px system-ui, sans-serif"; pen.textAlign = "center"; pen.lineWidth = 3; pen.lineJoin = "round";
  for (const [number, items] of [...of].sort((a, b) => b[1].length - a[1].length).slice(0, 60)) {
    const places = items.map(place), full = String(points.labels[number]), text = full.length > 26 ? full.slice(0, 25) + "…" : full, wide = pen.measureText(text).width;
    const y = Math.max(10, middle(places.map(each => each[1]))), x = Math.max(wide / 2 + 4, Math.min(area()[0] - wide / 2 - 4, middle(places.map(each => each[0]))));
    if (taken.some(([a, b, c]) => Math.abs(a - x) < (wide + c) / 2 + 4 && Math.abs(b - y) < 15)) continue;
    taken.push([x, y, wide]);
    pen.strokeStyle = style.getPropertyValue("--card"); pen.strokeText(text, x, y); pen.fillStyle = style.color; pen.fillText(text, x, y);
  }
}
function drawOver() {
  const pen = $("canvas").getContext("2d"), style = getComputedStyle(document.body);
  pen.putImageData(drawn, 0, 0); pen.globalAlpha = 1; pen.strokeStyle = style.color; pen.lineWidth = 1.6;
  for (const at of selected) { const [x, y] = place(at); pen.beginPath(); pen.arc(x, y, 5, 0, 7); pen.stroke(); }
  if (cursor >= 0) { const [x, y] = place(cursor); pen.lineWidth = 3; pen.beginPath(); pen.arc(x, y, 8, 0, 7); pen.stroke(); }
  if (box) { pen.lineWidth = 1.5; pen.setLineDash([5, 4]); pen.strokeRect(box[0], box[1], box[2] - box[0], box[3] - box[1]); pen.setLineDash([]); }
}
function nearest(x, y, within = 1e9, wanted = visible) {
  let best = -1, least = within * within;
  for (let at = 0; at < points.ids.length; at++) if (wanted(at)) { const [a, b] = place(at), far = (a - x) ** 2 + (b - y) ** 2; if (far < least) { least = far; best = at; } }
  return best;
}
const spot = event => { const edge = $("canvas").getBoundingClientRect(); return [event.clientX - edge.left, event.clientY - edge.top]; };
async function listOnMap(title, told, ids, exported) {
  $("map-title").textContent = title; $("map-told").textContent = told; $("export-map").hidden = !exported;
  const mine = ++listed;
  await describe(ids.slice(0, 100));
  if (mine !== listed) return;
  $("map-list").replaceChildren(...ids.slice(0, 100).map(id => { const found = looks(id); return itemElement(id, "button", {class: "item", type: "button", onclick: () => like(id)},
    image(found, id), element("span", {}, element("b", {}, found.label == null ? "Item " + id : String(found.label)), found.label == null ? "" : element("span", {class: "faint"}, " item " + id), found.text ? element("div", {class: "faint"}, found.text) : "")); }));
}
async function pick(at) {
  const id = points.ids[at], mine = ++listed;
  cursor = at; selected = []; drawOver();
  const found = await ask(route("/search"), {query: id, k: 21}), ids = found.ids.filter(each => each !== id).slice(0, 20);
  if (mine !== listed) return;
  const where = new Map(points.ids.map((each, number) => [each, number]));
  selected = ids.filter(each => where.has(each)).map(each => where.get(each)); drawOver();
  await listOnMap("Nearest to item " + id, "Ringed on the map. A click on one searches for it.", [id, ...ids], false);
}
function guardedPick(at) { // the item may be gone, and others then have other places
  const id = points.ids[at];
  guarded(async () => { const now = points.ids.indexOf(id); if (now < 0) throw new Error(`Item ${id} is no longer in the index.`); await pick(now); });
}
async function pickBox(box) {
  const [left, right] = [box[0], box[2]].sort((a, b) => a - b), [top, bottom] = [box[1], box[3]].sort((a, b) => a - b);
  selected = [...points.ids.keys()].filter(at => { const [x, y] = place(at); return visible(at) && x >= left && x <= right && y >= top && y <= bottom; });
  cursor = -1; drawOver(); const n = selected.length;
  await listOnMap(`${n.toLocaleString()} items selected`, n > 100 ? "The first 100 are listed." : "", selected.map(at => points.ids[at]), n > 0);
}
function tellSelected() { $("map-title").textContent = `${selected.length.toLocaleString()} items selected`; }
$("canvas").addEventListener("pointerdown", event => { if (!points) return; box = [...spot(event), ...spot(event)]; $("canvas").setPointerCapture(event.pointerId); });
$("canvas").addEventListener("pointermove", event => {
  if (!points) return;
  const [x, y] = spot(event), at = nearest(x, y, 12);
  if (box) { box[2] = x; box[3] = y; drawOver(); }
  $("tip").hidden = at < 0 || Boolean(box);
  if (at >= 0) { $("tip").textContent = `${nameOf(at)}item ${points.ids[at]}`; $("tip").style.left = Math.min(x + 14, $("canvas").clientWidth - 110) + "px"; $("tip").style.top = y + 14 + "px"; }
});
$("canvas").addEventListener("pointerup", event => {
  if (!box) return;
  const done = box; box = null;
  if (Math.hypot(done[2] - done[0], done[3] - done[1]) > 6) return void guarded(() => pickBox(done));
  const at = nearest(...spot(event), 40); if (at >= 0) guardedPick(at);
});
$("canvas").addEventListener("pointercancel", () => { box = null; if (points) drawOver(); });
$("canvas").addEventListener("keydown", event => {
  const step = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key];
  if (!points || (!step && event.key !== "Enter")) return;
  event.preventDefault();
  if (event.key === "Enter") { if (cursor >= 0) guardedPick(cursor); return; }
  const [w, h] = area(), [x, y] = cursor < 0 ? [w / 2, h / 2] : place(cursor);
  const next = nearest(x, y, 1e9, at => { const [a, b] = place(at), ahead = (a - x) * step[0] + (b - y) * step[1]; return visible(at) && at !== cursor && ahead > 0 && ahead * 1.5 > Math.abs((a - x) * step[1] + (b - y) * step[0]); });
  if (next >= 0) { cursor = next; drawOver(); $("map-title").textContent = `${nameOf(next)}item ${points.ids[next]}`; }
});

async function readAudit(tell) { audited = audited || await patiently(route("/audit"), tell); }
async function showAudit() {
  const tell = teller("audit-told", "classes-told");
  $("audit-rest").hidden = !audited;
  if (!audited) tell("Checking all labels ...", 0);
  await readAudit(tell);
  $("audit-rest").hidden = false;
  if (!audited.findings[kind].length) kind = Object.keys(KINDS).find(each => audited.findings[each].length) || "label";
  $("kinds").replaceChildren(...Object.keys(KINDS).filter(each => audited.findings[each].length).map(each => element("button", {class: "chip", type: "button", "data-kind": each,
    "aria-pressed": String(each === kind), onclick: () => { kind = each; guarded(showAudit); }}, `${audited.findings[each].length} ${KINDS[each][0]}`)));
  const source = audited.source === "file" ? "Found in the vectors." : "Found in the codes alone; the command `supquant audit` finds more in the vectors.";
  tell([audited.findings[kind].length ? KINDS[kind][1] : "Nothing looks wrong.", source, ...audited.notes].join(" "));
  const lines = audited.findings[kind], ofRows = !["confused", "two"].includes(kind);
  chosen = new Set();
  const there = lines.filter(line => line.id != null).map(line => line.id);
  if (there.length) await describe([...new Set(there)]);
  const pictures = there.some(id => looks(id).picture), texts = there.some(id => looks(id).text);
  const heads = ofRows ? ["", ...(pictures ? [""] : []), "id", "label", kind === "duplicate" ? "group" : "suggested", ...(texts ? ["text"] : []), "probability", "neighbours agree", "score"] : ["class", ...(kind === "confused" ? ["and class"] : []), "items", "score"];
  const narrow = name => ["probability", "neighbours agree"].includes(name) ? "n wide" : ["score", "items"].includes(name) ? "n" : null;
  const cells = line => {
    if (!ofRows) return [element("td", {}, String(line.label)), ...(kind === "confused" ? [element("td", {}, String(line.suggested))] : []), element("td", {class: "n"}, String(line.rows)), element("td", {class: "n"}, percent(line.score))];
    const found = looks(line.id), text = value => value == null ? "" : String(value);
    return [element("td", {class: "tight"}, element("input", {type: "checkbox", "aria-label": "Select item " + line.id, onchange: event => { event.target.checked ? chosen.add(line.id) : chosen.delete(line.id); count(); }})),
      ...(pictures ? [element("td", {class: "tight"}, image(found, line.id))] : []), element("td", {class: "tight"}, element("button", {class: "chip", type: "button", title: "Search for items like item " + line.id, onclick: () => like(line.id)}, String(line.id))),
      element("td", {class: kind === "label" || line.conflict ? "wrong" : null}, ...breakable(text(line.label))), element("td", {class: kind === "duplicate" ? null : "suggested"}, kind === "duplicate" ? String(line.group + 1) : element("b", {}, ...breakable(text(line.suggested)))),
      ...(texts ? [element("td", {class: "said"}, element("div", {title: found.text || ""}, found.text || ""))] : []), element("td", {class: "n wide"}, percent(line.probability)), element("td", {class: "n wide"}, percent(line.agreement)), element("td", {class: "n"}, percent(line.score))];
  };
  $("findings").className = ofRows ? "rows" : "";
  $("findings").replaceChildren(element("thead", {}, element("tr", {}, ...heads.map(name => element("th", {class: narrow(name)}, name)))), element("tbody", {}, ...lines.map(line => ofRows && line.id != null ? itemElement(line.id, "tr", {}, ...cells(line)) : element("tr", {}, ...cells(line)))));
  $("all").hidden = $("export").hidden = !ofRows; count();
}
function count() { $("chosen").textContent = chosen.size ? `${chosen.size} selected` : ""; $("export").disabled = !chosen.size; }
// A spreadsheet would run a text that begins like a formula: an apostrophe says that it is a text.
function csvCell(id) {
  const text = typeof id === "string" && /^[=+\-@\t\r]/.test(id) ? "'" + id : String(id);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
function exportIds(choose, name) { return guarded(() => download(choose(), name)); } // chosen again after what is gone was left out
function download(ids, name) {
  const link = element("a", {href: URL.createObjectURL(new Blob(["id\n" + ids.map(csvCell).join("\n") + "\n"], {type: "text/csv"})), download: name});
  document.body.append(link); link.click(); link.remove();
}
const SHOWN = 12;
async function showFound() {
  const tell = teller("found-told");
  if (!groups) {
    $("groups").replaceChildren(); tell("Looking for new classes ...", 0);
    const found = await patiently(route("/found"), tell);
    groups = {list: found.groups, version: found.version};
  }
  tell(groups.list.length ? "Items that seem to belong to classes that nobody has labelled. Give names to those that you recognise, the same name to parts of one class. Searches then find their items by it."
    : "No item seems to belong to a class that nobody has labelled. They are found if the model was fitted to items without labels, too.");
  const ids = groups.list.flatMap(each => each.ids.slice(0, SHOWN));
  if (ids.length) await describe(ids);
  $("groups").replaceChildren(...groups.list.map(each => {
    const near = each.nearest.filter(one => one.share >= .01).map(one => `${one.label} ${percent(one.share)}`).join(", ");
    const field = element("input", {placeholder: "Name of this class", "aria-label": "Name of group " + each.number, autocomplete: "off", required: true});
    const bar = (name, value, why) => element("div", {class: "measure", title: why}, element("span", {}, name), element("div", {class: "meter"}, element("i", {style: `width: ${100 * value}%`})), element("span", {}, percent(value)));
    return element("article", {class: "panel", "data-group": each.number},
      element("div", {class: "row"}, element("b", {}, "Group " + each.number), element("span", {class: "faint"}, `${each.items.toLocaleString()} items`)),
      element("form", {class: "row naming", onsubmit: event => { event.preventDefault(); guarded(nameGroups); }}, field, element("button", {class: "main"}, "Name")),
      bar("New", each.novelty, "Mean probability that its items belong to no known class"), bar("Belong together", each.agreement, "Mean agreement that its items belong together"),
      near ? element("p", {class: "faint"}, "Most similar known classes: " + near) : null,
      element("div", {class: "thumbs"}, ...each.ids.slice(0, SHOWN).map(id => { const found = looks(id); return itemElement(id, "button", {type: "button", class: found.picture ? "thumb" : "item", title: "Search for items like item " + id, onclick: () => like(id)}, image(found, id) || element("span", {}, found.text || "Item " + id)); })));
  }));
}
async function nameGroups() { // all that have a name: groups of the same name become one class
  const numbers = (info.labels || []).length && info.labels.every(each => typeof each === "number"), ids = [], labels = [];
  for (const field of document.querySelectorAll("#groups input")) {
    const name = field.value.trim(), group = groups.list.find(each => String(each.number) === field.closest("article").dataset.group);
    if (name && group) for (const id of group.ids) { ids.push(id); labels.push(numbers && !Number.isNaN(Number(name)) ? Number(name) : name); }
  }
  if (!ids.length) return;
  await ask(route("/extend"), {ids, labels});
  const names = [...new Set(labels)];
  await fresh(); await again();
  $("found-told").prepend(`${names.join(", ")}: learned from ${ids.length.toLocaleString()} items. `,
    ...names.flatMap(name => [element("button", {class: "chip", type: "button", onclick: () => like(ids[labels.indexOf(name)])}, "Show items like " + name), " "]));
}
async function showClasses() {
  const tell = teller("audit-told", "classes-told");
  $("quality").parentElement.hidden = !audited;
  if (!audited) tell("Checking all labels ...", 0);
  await readAudit(tell);
  $("quality").parentElement.hidden = !audited.classes.length;
  if (!audited.classes.length) { tell("The file of findings next to the index says nothing of classes."); return; }
  $("classes-told").textContent = "How well each class is recognised, worst first. Recall: how many of its items look like it. Precision: how many items that look like it have its label.";
  const heads = ["class", "items", "recall", "precision", "neighbours agree", "doubtful labels"], meter = value => element("div", {class: "meter"}, element("i", {style: `width: ${100 * value}%`}));
  $("quality").replaceChildren(element("thead", {}, element("tr", {}, ...heads.map((name, at) => element("th", {class: at ? at > 3 ? "n wide" : "n" : null}, name)))),
    element("tbody", {}, ...[...audited.classes].sort((a, b) => a.recall - b.recall).map(each => element("tr", {}, element("td", {}, ...breakable(String(each.label))), element("td", {class: "n"}, each.rows.toLocaleString()),
      element("td", {class: "n"}, percent(each.recall), meter(each.recall)), element("td", {class: "n"}, percent(each.precision), meter(each.precision)), element("td", {class: "n wide"}, percent(each.agreement)), element("td", {class: "n wide"}, String(each.doubtful))))));
}

const SHOW = {search: async () => {}, map: showMap, audit: showAudit, found: showFound, classes: showClasses};
function open(name) {
  for (const each of TABS) { $(each).hidden = each !== name; $("tab-" + each).setAttribute("aria-selected", String(each === name)); $("tab-" + each).tabIndex = each === name ? 0 : -1; }
  history.replaceState(null, "", "#/" + name); tellChanged();
  return guarded(SHOW[name]);
}
async function choose() {
  turn++; asked++;
  points = audited = groups = null; sample = []; known = new Map(); chosen = new Set(); selected = []; cursor = -1; off = new Set(); box = null;
  $("changed").hidden = true; $("map-list").replaceChildren(); $("legend").replaceChildren(); $("export-map").hidden = true;
  info = {columns: {}}; info = await ask(route(""));
  showFacts();
  $("text-field").hidden = !info.accepts.includes("text"); $("picture-field").hidden = !info.accepts.includes("picture");
  $("query-name").textContent = $("text-field").hidden && $("picture-field").hidden ? "The id of an item, or a vector" : "Or the id of an item, or a vector";
  $("text").value = $("query").value = "";
  $("ranking").replaceChildren(...info.rankings.map(each => new Option(each, each)));
  $("columns").replaceChildren(...Object.entries(info.columns).filter(([, type]) => !/binary|struct|list/.test(type)).map(([name, type]) => element("button", {class: "chip", type: "button",
    title: "A column of type " + type, onclick: () => { $("where").value += ($("where").value.trim() ? " and " : "") + name + " = "; $("where").focus(); }}, name)));
  $("where").placeholder = Object.keys(info.columns).length ? "such as " + Object.keys(info.columns)[0] + " = ..." : "the index has no columns";
  await random(); await guarded(SHOW[openTab()]);
}
async function again() {
  turn++; points = audited = groups = null; selected = []; cursor = -1; off = new Set(); tellChanged();
  await SHOW[openTab()]();
}
function showFacts() { $("facts").textContent = `${info.rows.toLocaleString()} items, ${info.bytes_per_code} bytes each`; }
async function random() {
  if (!info.rows) { clearAnswers("The index has no items."); return; }
  if (!sample.length) sample = (await ask(route("/sample"))).ids;
  edited = "query";
  $("query").value = sample.splice(Math.floor(Math.random() * sample.length), 1)[0];
  await search(readQuery());
}
$("form").addEventListener("submit", event => { event.preventDefault(); guarded(() => search(readQuery())); });
$("query").addEventListener("keydown", event => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); guarded(() => search(readQuery())); } });
for (const name of ["query", "text"]) $(name).addEventListener("input", () => { edited = name; });
async function searchPicture(file) {
  if (!file || !file.type.startsWith("image/") || $("picture-field").hidden) return;
  const reader = new FileReader();
  await new Promise((done, fail) => { reader.onload = done; reader.onerror = () => fail(new Error("The picture cannot be read.")); reader.readAsDataURL(file); });
  await search({picture: reader.result.slice(reader.result.indexOf(",") + 1)});
}
$("picture").addEventListener("change", event => guarded(async () => { await searchPicture(event.target.files[0]); event.target.value = ""; }));
addEventListener("paste", event => guarded(() => searchPicture([...event.clipboardData.files][0])));
for (const kind of ["dragover", "dragleave", "drop"]) $("drop").addEventListener(kind, event => { event.preventDefault(); $("drop").classList.toggle("over", kind === "dragover"); });
$("drop").addEventListener("drop", event => guarded(() => searchPicture(event.dataTransfer.files[0])));
$("again").addEventListener("click", () => guarded(again));
$("random").addEventListener("click", () => guarded(random));
$("index").addEventListener("change", () => guarded(choose));
$("all").addEventListener("click", () => { const all = [...document.querySelectorAll("#findings input")], on = all.some(each => !each.checked); all.forEach(each => { if (each.checked !== on) each.click(); }); });
$("export").addEventListener("click", () => exportIds(() => [...chosen], `${$("index").value}-${kind}.csv`));
$("export-map").addEventListener("click", () => exportIds(() => selected.map(at => points.ids[at]), `${$("index").value}-map.csv`));
$("token-button").addEventListener("click", () => { const token = prompt("Token of the service"); if (token) { sessionStorage.setItem("token", token); guarded(start); } });
for (const name of TABS) {
  $("tab-" + name).addEventListener("click", () => open(name));
  $("tab-" + name).addEventListener("keydown", event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (step) { const next = TABS[(TABS.indexOf(name) + step + TABS.length) % TABS.length]; $("tab-" + next).focus(); open(next); }
  });
}
addEventListener("keydown", event => { if (event.key === "/" && !/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) { event.preventDefault(); open("search"); const field = $($("text-field").hidden ? "query" : "text"); field.focus(); field.select(); } });
addEventListener("focus", () => { fresh().catch(() => {}); });
addEventListener("resize", () => { if (points && !$("map").hidden) drawMap(); });
async function start() {
  const {indexes} = await ask("/v1");
  $("index").replaceChildren(...indexes.map(each => new Option(each.name, each.name)));
  const wanted = location.hash.slice(2);
  if (TABS.includes(wanted)) for (const each of TABS) { $(each).hidden = each !== wanted; $("tab-" + each).setAttribute("aria-selected", String(each === wanted)); $("tab-" + each).tabIndex = each === wanted ? 0 : -1; }
  await choose();
}
guarded(start);
