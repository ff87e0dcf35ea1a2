"use strict";
// The script of the page. State stands in the hash: the leaderboard's filters, and the open number.
const data = JSON.parse(document.getElementById("data").textContent);
const text = (place) => data.texts[place];
// The published numbers by id; the file has them by row, which stands in the id of each.
const cells = Object.fromEntries(Object.entries(data.cells).flatMap(([row, columns]) =>
  Object.entries(columns).map(([column, cell]) => [row + "/" + column, cell])));
const form = document.getElementById("filters");
const dialog = document.getElementById("dialog");
const FILTERS = ["board", "task", "encoder", "post", "fit", "trained", "q"];
const tables = {};
document.body.classList.add("scripted");

// Elements are made of text alone: nothing from data is ever read as markup.
function make(name, content, attributes = {}) {
  const element = document.createElementNS(
    SVG_NAMES.has(name) ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...(Array.isArray(content) ? content : content === undefined ? [] : [content]));
  return element;
}
const SVG_NAMES = new Set(["svg", "circle", "line", "rect", "text", "title"]);

// Methods

const methodOf = (row) => row.replace(/ †$/, "");
const encoderOf = (method) => method.split(".")[0];
const postOf = (method) =>
  method.split("@")[0].split("+").slice(1).map((post) => post.split(":")[0]).join(" + ") || "as encoded";
const isTransductive = (method) => /@target(-splits)?$/.test(method);
const trainedOn = (method) => (data.methods[method] ? text(data.methods[method].trained) : "");

// The leaderboard

const state = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");

function link(changes) {
  const now = state();
  for (const [key, value] of Object.entries(changes)) {
    if (value) now.set(key, value); else now.delete(key);
  }
  return "#" + now.toString().replaceAll("%2F", "/");
}

function tableOf(board) {
  if (tables[board]) return tables[board];
  const element = document.querySelector(`[data-board="${CSS.escape(board)}"]`);
  const columns = [...element.querySelectorAll("thead th")].map((heading, place) => place === 0 ? {} : {
    type: "num",
    orderSequence: ["desc", "asc"],
    render(value, kind, row) {
      if (kind === "sort" || kind === "type") return Number.isNaN(parseFloat(value)) ? -Infinity : parseFloat(value);
      if (kind !== "display" || !heading.dataset.t || Number.isNaN(parseFloat(value))) return value;
      const name = [methodOf(row[0]), heading.dataset.t, heading.dataset.p].join("/");
      return make("a", value, { href: link({ board, score: name, cell: "" }) }).outerHTML;
    },
  });
  const table = new DataTable(element, {
    columns, order: [], autoWidth: false, pageLength: 50, searching: true,
    layout: { topStart: null, topEnd: null, bottomStart: null, bottomEnd: "paging" },
  });
  table.search.fixed("filters", (_, row) => passes(methodOf(row[0])));
  return (tables[board] = table);
}

function passes(method) {
  const { encoder, post, fit, trained, q } = Object.fromEntries(new FormData(form));
  return (!encoder || encoderOf(method) === encoder)
    && (!post || postOf(method) === post)
    && (!fit || isTransductive(method) === (fit === "yes"))
    && (!trained || trainedOn(method) === trained)
    && q.toLowerCase().split(/\s+/).every((word) => method.toLowerCase().includes(word));
}

function showBoard() {
  const board = form.elements.board.value;
  for (const part of document.querySelectorAll(".board")) part.hidden = part.id !== "board-" + board;
  const table = tableOf(board);
  const headings = table.columns().header().toArray().slice(1);
  const wanted = form.elements.task.value;
  const names = headings.map((heading) => heading.textContent.trim());
  fill(form.elements.task, names.filter((_, place) => headings[place].dataset.t), "all");
  form.elements.task.value = names.includes(wanted) ? wanted : "";
  const task = form.elements.task.value;
  names.forEach((name, place) => table.column(place + 1).visible(!task || name === task, false));
  if (task && task !== wanted) table.order([]);
  table.draw();
  const { recordsDisplay, recordsTotal } = table.page.info();
  document.getElementById("found").value = `${recordsDisplay} of ${recordsTotal} methods`;
}

function fill(select, values, any) {
  select.replaceChildren(new Option(any, ""), ...values.map((value) => new Option(value, value)));
}

// What a spreadsheet would compute, were it not for an apostrophe before it; numbers stay.
function plain(text) {
  return /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
}

function saveCsv() {
  const table = tables[form.elements.board.value];
  const quote = (value) => `"${plain(String(value)).replaceAll('"', '""')}"`;
  const shown = table.columns(":visible");
  const head = shown.header().toArray().map((heading) => heading.textContent.trim());
  const places = shown.indexes().toArray();
  const rows = table.rows({ search: "applied" }).data().toArray();
  const lines = [head, ...rows.map((row) => places.map((place) => row[place]))];
  const csv = lines.map((line) => line.map(quote).join(",")).join("\r\n") + "\r\n";
  const address = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
  make("a", "", { href: address, download: `${form.elements.board.value}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// The papers' tables

const OPENED = 3;  // tables that a search opens, if it finds no more
const find = document.getElementById("find");
const paperOf = new Map();  // the heading that a table stands under
for (const part of document.querySelectorAll("#papers details")) {
  let heading = part;
  while (heading.tagName !== "H3") heading = heading.previousElementSibling;
  paperOf.set(part, heading);
}

const wordsOf = (text) => text.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);

// A number is found as it is, another word by its beginning.
const has = (words, wanted) => words.some((word) => /^\d+$/.test(wanted) ? word === wanted : word.startsWith(wanted));

function findTables() {
  const wanted = wordsOf(find.elements.words.value);
  const every = [...paperOf.keys()];
  for (const part of every) {
    const rows = [...part.querySelectorAll("tbody th")].map((heading) => heading.textContent);
    const words = wordsOf([paperOf.get(part).textContent, part.querySelector("summary").dataset.title, ...rows].join(" "));
    part.hidden = !wanted.every((word) => has(words, word));
  }
  for (const paper of new Set(paperOf.values())) {
    paper.hidden = every.every((part) => part.hidden || paperOf.get(part) !== paper);
  }
  const shown = every.filter((part) => !part.hidden);
  if (wanted.length && shown.length <= OPENED) for (const part of shown) part.open = true;
  document.getElementById("tables-found").value = wanted.length ? `${shown.length} of ${every.length} tables` : "";
}

// The dialog

function copied(content, label) {
  const button = make("button", "Copy", { type: "button", "aria-label": `Copy ${label}` });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(content);
    } catch {  // a page from the file system may not write to the clipboard everywhere
      getSelection().selectAllChildren(button.previousSibling);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return make("div", [make("pre", content, { tabindex: 0 }), button], { class: "copy" });
}

// What stands between backticks as code.
const coded = (value) => value.split("`").map((part, place) => place % 2 ? make("code", part) : part);

// Papers, code and models that a text names, as links.
const LINKS = [
  [/arXiv (\d{4}\.\d{4,5})(v\d+)?/, (match) => `https://arxiv.org/abs/${match[1]}${match[2] || ""}`],
  [/\bICLR 2017 (\w+)/, (match) => `https://openreview.net/forum?id=${match[1]}`],
  [/github\.com\/[\w.-]+\/[\w./-]*\w/, (match) => "https://" + match[0]],
  [/(?:github |git log -p of |(?=embeddings-benchmark))([\w.-]+\/[\w.-]*\w)(?:([^@]*) @([0-9a-f]{7,40})|.*? commit ([0-9a-f]{7,40}))?/,
    (match) => `https://github.com/${match[1]}` + (match[3] || match[4] ? `/tree/${match[3] || match[4]}` : "")],
];

function linked(value) {
  for (const [pattern, address] of LINKS) {
    const match = pattern.exec(value);
    if (match) {
      const end = match.index + match[0].length;
      return [value.slice(0, match.index), make("a", match[0], { href: address(match) }), value.slice(end)];
    }
  }
  return [value];
}

const modelOf = (method) => /^([\w.-]+\/[\w.-]+)(?:@|,)/.exec(data.sources[encoderOf(method).split(":")[0]])?.[1];
const model = (repository) => make("a", repository, { href: `https://huggingface.co/${repository}` });

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value && (value.length || value.tagName));
  return make("dl", shown.flatMap(([name, value]) => [
    make("dt", name), ...[value].flat().map((one) => make("dd", typeof one === "string" ? coded(one).flatMap((part) => typeof part === "string" ? linked(part) : [part]) : one)),
  ].flatMap((item, place) => place > 1 ? [make("dt", ""), item] : [item])));
}

const signed = (number) => (number < 0 ? "−" : "+") + Math.abs(number).toFixed(2);
const mean = (numbers) => numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
const named = (name) => name.replace("spearman", "Spearman").replace("pearson", "Pearson").replaceAll(".", ", ");

// Seeds as dots on a line, and the published number as a bar.
function dots(seeds, published, half) {
  const every = published === null ? seeds : [...seeds, published];
  const low = Math.min(...every, ...(half ? [mean(seeds) - half] : []));
  const high = Math.max(...every, ...(half ? [mean(seeds) + half] : []));
  const room = Math.max((high - low) * 0.1, 0.25);
  const at = (value) => (30 + 400 * (value - low + room) / (high - low + 2 * room)).toFixed(1);
  const label = `${seeds.length} seeds: ${seeds.map((seed) => seed.toFixed(2)).join(", ")}`;
  const parts = [make("title", label), make("line", [], { x1: 30, x2: 430, y1: 24, y2: 24, stroke: "var(--line)" })];
  if (half) parts.push(make("rect", [], { x: at(mean(seeds) - half), width: at(mean(seeds) + half) - at(mean(seeds) - half), y: 18, height: 12, fill: "var(--line)" }));
  if (published !== null) {
    parts.push(make("line", [], { x1: at(published), x2: at(published), y1: 10, y2: 38, stroke: "var(--bad)", "stroke-width": 2 }));
  }
  for (const seed of seeds) parts.push(make("circle", [], { cx: at(seed), cy: 24, r: 5, fill: "var(--link)", "fill-opacity": .75 }));
  for (const [value, anchor] of [[low, "start"], [high, "end"]]) {
    if (low !== high) parts.push(make("text", value.toFixed(2), { x: at(value), y: 52, "text-anchor": anchor === "start" ? "middle" : "middle" }));
  }
  return make("svg", parts, { viewBox: "0 0 460 58", role: "img", "aria-label": label });
}

function cite(keys, sentence) {
  const every = [data.harness, ...keys.map(text)];
  return [make("h3", "Cite"), copied(sentence, "the sentence"),
    copied([...new Set(every)].map((key) => data.bibtex[key]).join("\n\n"), "BibTeX")];
}

// What was measured, with what and from which records, as a sentence ends.
function measuredBy(method, tasks, words) {
  const records = tasks.map((task) => data.scores[method]?.[task]?.records).filter(Boolean);
  const by = method ? ` by ${method}` : "";
  const from = records.length ? `, records sha256 ${records.join(", ")}` : "";
  return `${words}${by} with the sentence-embedding harness${from}.`;
}

function measuredWith(method, tasks) {
  const known = tasks.map((task) => (data.scores[method] || {})[task]).filter(Boolean);
  if (!known.length) return [];
  const origins = known.map((one) => data.origins[one.origin]);
  const records = tasks.filter((task) => data.scores[method][task]).map((task) => `${task} ${data.scores[method][task].records}`);
  return [make("h3", "Measured with"), facts([
    ["environment", [...new Set(origins.map((origin) => text(origin.environment)))]],
    ["digests", [...new Set(origins.flatMap((origin) => origin.digests.map(text)))].join(", ")],
    ["records", records.join(", ")],
  ])];
}

const files = (method) => {
  const encoder = method.split(/[.:]/)[0].replace(/-b?float16$/, "");
  return data.by_hand.includes(encoder) ? `--encoder ${encoder}=PATH ` : "";
};

const run = (method, tasks) =>
  method ? `harness run ${files(method)}-m '${method}' ${tasks.map((task) => `-t ${task}`).join(" ")}` : "";

function publishedCell(id) {
  const cell = cells[id], row = data.rows[id.slice(0, id.lastIndexOf("/"))];
  const { printed, seeds, difference, halfWidth } = cell;
  const texts = (numbers) => (numbers || []).map(text);
  const column = text(cell.column), label = text(row.label), protocol = text(cell.protocol);
  const method = text(cell.method), tasks = texts(cell.tasks), verdict = text(cell.state);
  const big = [make("span", [make("small", "published"), printed])];
  if (seeds) {
    big.push(make("span", [make("small", seeds.length > 1 ? `measured, mean of ${seeds.length} seeds` : "measured"), mean(seeds).toFixed(2)]),
      make("span", [make("small", "difference"), signed(difference)]));
  }
  big.push(make("span", [make("small", seeds ? "verdict" : "state"), make("span", verdict, { class: `verdict ${verdict.replaceAll(" ", "-")}` })]));
  const body = [make("div", big, { class: "big" })];
  if (seeds && seeds.length > 1) body.push(dots(seeds, parseFloat(printed), halfWidth));
  body.push(facts([
    ["published in", text(cell.place)], ["read from", text(cell.source)], ["protocol", protocol], ["evidence", text(row.evidence)], ["method", method],
    ["model", modelOf(method) && model(modelOf(method))], ["trained on", text(row.trained)], ["fitted on", text(row.fitted)], ["notes", texts(cell.notes)],
    ["under one other choice", texts(cell.neighbours)],
  ]));
  if (method && tasks.length) {
    body.push(make("h3", "Measure it"), copied([...texts(cell.needs), run(method, tasks)].join("\n"), "the command"),
      make("p", [make("code", `harness cite --cell ${id}`), " prints the citation with full digests."]));
  }
  body.push(make("h3", "Your number is another one?"), copied(`harness explain ${id} --mine YOUR_NUMBER`, "the command"));
  const about = `${label}, ${column} (${protocol}): published ${printed} in ${text(cell.place)}; `;
  const ours = seeds
    ? measuredBy(method, tasks, `measured ${mean(seeds).toFixed(2)} (${signed(difference)}, ${verdict})`)
    : `not measured by the sentence-embedding harness (${verdict}).`;
  body.push(...measuredWith(method, tasks), ...cite(row.cites, about + ours));
  return [`${label}, ${column}`, body];
}

function measuredScore(name) {
  const [method, task, path] = name.split("/");
  const scores = scoresOf(method, task), seeds = scores[path];
  const { trained, note, cites } = data.methods[method];
  const big = make("div", make("span", [make("small", `${named(path)}${seeds.length > 1 ? `, mean of ${seeds.length} seeds` : ""}`), mean(seeds).toFixed(2)]), { class: "big" });
  const others = Object.entries(scores).filter(([other]) => other !== path).map(([other, values]) => `${named(other)} ${mean(values).toFixed(2)}`);
  const body = [big];
  if (seeds.length > 1) body.push(dots(seeds, null, 0));
  body.push(facts([["task", task], ["other scores", others.join("; ")],
    ["model", modelOf(method) && model(modelOf(method))], ["trained on", text(trained)],
    ["fitted on", method.split("@")[1] || ""], ["note", text(note)]]));
  const same = Object.entries(cells).filter(([, cell]) => text(cell.method) === method && (cell.tasks || []).some((number) => text(number) === task));
  if (same.length) {
    body.push(make("h3", "Published numbers of this method and task"), make("ul", same.slice(0, 12).map(([id, cell]) =>
      make("li", make("a", `${id}: ${cell.printed}, ${text(cell.state)}`, { href: link({ cell: id, score: "" }) })))));
  }
  body.push(make("h3", "Measure it"), copied(run(method, [task]), "the command"), ...measuredWith(method, [task]),
    ...cite(cites, measuredBy(method, [task], `${task}, ${named(path)}: ${mean(seeds).toFixed(2)} measured`)));
  return [`${method} on ${task}`, body];
}

// The scores of a method on a task, by their paths: one a seed.
function scoresOf(method, task) {
  const values = data.scores[method]?.[task]?.scores || [];
  const every = (data.paths[task] || []).map((path, place) => [path, values[place]]);
  return Object.fromEntries(every.filter(([, value]) => value).map(([path, value]) => [path, [value].flat()]));
}

function known(name) {
  const [method, task, path] = name.split("/");
  return path in scoresOf(method, task);
}

function showDialog() {
  const now = state(), cell = now.get("cell"), score = now.get("score");
  const found = cells[cell] ? publishedCell(cell) : score && known(score) ? measuredScore(score) : null;
  if (!found) { if (dialog.open) dialog.close(); return; }
  document.getElementById("dialog-title").textContent = found[0];
  document.getElementById("dialog-body").replaceChildren(...found[1]);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}

// From the hash to the page, and back

function restore() {
  const now = state();
  if (location.hash.includes("=") || !location.hash) {
    for (const name of FILTERS) {
      const control = form.elements[name];
      control.value = now.get(name) ?? (name === "board" ? control.options[0].value : "");
    }
    if (form.elements.board.selectedIndex < 0) form.elements.board.selectedIndex = 0;
    showBoard();
    if (now.get("task")) { form.elements.task.value = now.get("task"); showBoard(); }
  }
  showDialog();
}

function remember() {
  const chosen = Object.fromEntries(new FormData(form));
  if (chosen.board === form.elements.board.options[0].value) chosen.board = "";
  history.replaceState(null, "", link(chosen));
  showBoard();
}

// Every number of the papers' tables opens.
for (const table of document.querySelectorAll("[data-table]")) {
  const columns = [...table.tHead.rows[0].cells].map((cell) => cell.dataset.c);
  for (const row of table.querySelectorAll("[data-r]")) {
    for (const cell of row.cells) {
      const id = [table.dataset.table, row.dataset.r, columns[cell.cellIndex]].join("/");
      if (cells[id] && cell.firstChild) {
        const anchor = make("a", cell.firstChild.textContent.trim(), { href: "#cell=" + id });
        cell.replaceChild(anchor, cell.firstChild);
        anchor.after(" ");
      }
    }
  }
}

// Each paper's heading leads to the paper, each table to what it was read from.
for (const part of document.querySelectorAll("#papers .source")) part.replaceChildren(...linked(part.textContent));
for (const [part, heading] of [...paperOf].reverse()) {
  const row = Object.keys(data.rows).find((name) => name.startsWith(part.id.slice("table-".length) + "/"));
  const address = row && /\burl = \{(.*?)\}/.exec(data.bibtex[text(data.rows[row].cites[0])])?.[1];
  if (address && !heading.querySelector("a")) heading.append(" ", make("a", /arxiv/.test(address) ? "arXiv" : /github/.test(address) ? "code" : "paper", { href: address }));
}

// A table that is wider than the page says so.
const wide = new ResizeObserver((entries) => entries.forEach(({ target }) =>
  target.classList.toggle("scrolls", target.scrollWidth > target.clientWidth + 1)));
for (const part of document.querySelectorAll("main .wide")) wide.observe(part);

const methods = Object.keys(data.methods);
const distinct = (of) => [...new Set(methods.map(of))].filter(Boolean).sort();
fill(form.elements.encoder, distinct(encoderOf), "any");
fill(form.elements.post, distinct(postOf), "any");
fill(form.elements.trained, distinct(trainedOn), "anything");
form.addEventListener("input", remember);
form.addEventListener("submit", (event) => event.preventDefault());
find.addEventListener("input", findTables);
find.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(remember));
document.getElementById("csv").addEventListener("click", saveCsv);
document.addEventListener("click", (event) => {  // the filters stay while a published number opens
  const anchor = event.target.closest('a[href^="#cell="]');
  if (anchor) {
    event.preventDefault();
    location.hash = link({ cell: new URLSearchParams(anchor.getAttribute("href").slice(1)).get("cell"), score: "" });
  }
});
dialog.addEventListener("close", () => {
  if (state().get("cell") || state().get("score")) history.replaceState(null, "", link({ cell: "", score: "" }) === "#" ? " " : link({ cell: "", score: "" }));
});
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
addEventListener("hashchange", restore);
restore();
