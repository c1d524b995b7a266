// Uses the page as a person would, and tells the frame around it what it saw.
const wait = async (test) => { for (let n = 0; n < 400; n++) { const found = test(); if (found) return found; await new Promise((go) => setTimeout(go, 20)); } throw new Error("waited in vain: " + test); };
const all = (selector) => [...document.querySelectorAll(selector)];
const fits = () => document.documentElement.scrollWidth <= innerWidth;
const exported = [];
URL.createObjectURL = (blob) => { exported.push(blob.text()); return "#"; };
HTMLAnchorElement.prototype.click = () => {};
HTMLCanvasElement.prototype.setPointerCapture = () => {};
addEventListener("load", async () => {
  const seen = {width: innerWidth, fits: []};
  try {
    await wait(() => all("#answers .card").length);
    seen.answers = all("#answers .card").length;
    seen.pictures = all("#answers img").every((each) => each.complete && each.naturalWidth > 0);
    seen.query = document.getElementById("query-looks").textContent;
    seen.why = all("#answers details")[0].textContent;
    seen.fits.push(fits());

    document.getElementById("where").value = "digit = 3";
    document.getElementById("told").textContent = "";
    document.querySelector("#form .main").click();
    await wait(() => document.getElementById("told").textContent);
    seen.filtered = all("#answers .card b").map((each) => each.textContent);
    document.getElementById("where").value = "no_such = 3";
    document.querySelector("#form .main").click();
    await wait(() => !document.getElementById("message").hidden);
    seen.refused = document.getElementById("message").textContent;
    document.getElementById("where").value = "";
    document.getElementById("query").value = JSON.stringify(Array(64).fill(0.5));
    document.getElementById("told").textContent = "";
    document.getElementById("query").dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"}));
    await wait(() => document.getElementById("told").textContent);
    seen.vector = document.getElementById("query-looks").textContent;

    const ink = document.createElement("canvas"); ink.width = ink.height = 80;
    const pen = ink.getContext("2d"); pen.fillStyle = "#fff"; pen.fillRect(0, 0, 80, 80); pen.fillStyle = "#000"; pen.fillRect(34, 8, 14, 64);
    const file = await new Promise((go) => ink.toBlob((blob) => go(new File([blob], "one.png", {type: "image/png"}))));
    const bag = new DataTransfer(); bag.items.add(file);
    document.getElementById("told").textContent = "";
    document.getElementById("drop").dispatchEvent(new DragEvent("drop", {dataTransfer: bag}));
    await wait(() => document.getElementById("told").textContent);
    seen.picture = document.getElementById("query-looks").textContent;
    seen.stale = document.getElementById("query").value;
    seen.order = all("#form label:not([hidden])").map((each) => each.id || each.firstElementChild.id);
    seen.fields = ["text-field", "picture-field"].map((each) => !document.getElementById(each).hidden);

    document.getElementById("tab-search").dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}));
    await wait(() => all("#legend button").length);
    seen.legend = all("#legend button").map((each) => each.textContent);
    const canvas = document.getElementById("canvas"), edge = canvas.getBoundingClientRect();
    const fire = (kind, x, y) => canvas.dispatchEvent(new PointerEvent(kind, {clientX: edge.left + x, clientY: edge.top + y, pointerId: 1}));
    const [x, y] = place(7);
    fire("pointerdown", x, y); fire("pointerup", x, y);
    await wait(() => all("#map-list button").length === 21);
    seen.clicked = document.getElementById("map-title").textContent;
    fire("pointerdown", 0, 0); fire("pointermove", edge.width, edge.height); fire("pointerup", edge.width, edge.height);
    await wait(() => !document.getElementById("export-map").hidden);
    seen.boxed = document.getElementById("map-title").textContent;
    document.getElementById("export-map").click();
    canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowLeft"}));
    seen.keyed = document.getElementById("map-title").textContent;
    seen.fits.push(fits());

    document.getElementById("tab-audit").click();
    await wait(() => all("#findings tbody tr").length);
    seen.kinds = all("#kinds button").map((each) => each.dataset.kind);
    seen.table = document.getElementById("findings").scrollWidth <= document.getElementById("findings").parentElement.clientWidth;
    seen.suspects = all("#findings tbody tr").length;
    all("#findings input")[0].click(); all("#findings input")[1].click();
    seen.chosen = document.getElementById("chosen").textContent;
    document.getElementById("export").click();
    seen.fits.push(fits());
    document.getElementById("tab-classes").click();
    await wait(() => all("#quality tbody tr").length);
    seen.classes = all("#quality tbody tr").length;
    seen.fits.push(fits());
    seen.exported = await Promise.all(exported);
  } catch (error) { seen.error = String(error); }
  parent.postMessage(JSON.stringify(seen), "*");
});
