"use strict";
// The script of the page. Its state is in the hash: the leaderboard's filters, and the open number.
const data = JSON.parse(document.getElementById("data").textContent);
const form = document.getElementById("filters");
const find = document.getElementById("find");
const dialog = document.getElementById("dialog");
const FILTERS = ["board", "task", "encoder", "post", "fit", "trained", "q"];
document.body.classList.add("scripted");

// Each text is in the data once; a field holds its number in the list of texts. A field that would
// be empty is left out.
const textOf = (number) => (number === undefined ? "" : data.texts[number]);
const textsOf = (numbers) => (numbers ?? []).map(textOf);

const cells = data.cells;  // the published numbers by id, TABLE/ROW/COLUMN

// Elements are made of text alone: nothing from the data is ever read as markup.
const SVG_NAMES = new Set(["svg", "circle", "line", "rect", "text", "title"]);

function make(name, content = [], attributes = {}) {
  const space = SVG_NAMES.has(name) ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
  const element = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...[content].flat());
  return element;
}

// Methods

const methods = Object.keys(data.methods);
const methodOf = (row) => row.replace(/<.*?>| †/g, "");  // of the first cell of a row
const encoderOf = (method) => method.split(".")[0];
const isTransductive = (method) => /@target(-splits)?$/.test(method);

function postOf(method) {
  const posts = method.split("@")[0].split("+").slice(1);
  return posts.map((post) => post.split(":")[0]).join(" + ") || "as encoded";
}

function trainedOn(method) {
  return textOf(data.methods[method]?.trained);
}

// The hash

function hashState() {
  return new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
}

function link(changes) {
  const changed = hashState();
  for (const [key, value] of Object.entries(changes)) {
    if (value) changed.set(key, value); else changed.delete(key);
  }
  return "#" + changed.toString().replaceAll("%2F", "/");
}

function restore() {
  if (location.hash.includes("=") || !location.hash) restoreFilters();
  showDialog();
}

function restoreFilters() {
  const saved = hashState();
  const boards = form.elements.board;
  for (const name of FILTERS) form.elements[name].value = saved.get(name) ?? "";
  if (FILTERS.some((name) => saved.get(name))) document.getElementById("boards").open = true;
  if (boards.selectedIndex < 0) boards.selectedIndex = 0;
  showBoard();
  if (saved.get("task")) {  // the tasks to choose from are those of the board that is shown
    form.elements.task.value = saved.get("task");
    showBoard();
  }
}

function remember() {
  const chosen = Object.fromEntries(new FormData(form));
  if (form.elements.board.selectedIndex === 0) chosen.board = "";
  history.replaceState(null, "", link(chosen));
  showBoard();
}

// The leaderboard

const shownTables = {};  // DataTables by the id of their board

function tableOf(board) {
  shownTables[board] ??= makeTable(board);
  return shownTables[board];
}

function makeTable(board) {
  const element = document.querySelector(`#board-${board} table`);
  const [, ...headings] = element.querySelectorAll("thead th");
  const columns = [{}, ...headings.map((heading) => columnOf(board, heading))];
  const table = new DataTable(element, {
    columns,
    order: [],
    autoWidth: false,
    pageLength: 50,
    searching: true,
    layout: { topStart: null, topEnd: null, bottomStart: null, bottomEnd: "paging" },
  });
  table.search.fixed("filters", (_, row) => passes(methodOf(row[0])));
  return table;
}

// A column of numbers: sorted with the missing ones last, each score a link to its dialog.
function columnOf(board, heading) {
  function render(value, purpose, row) {
    const number = parseFloat(value);
    if (purpose === "sort" || purpose === "type") return Number.isNaN(number) ? -Infinity : number;
    if (purpose !== "display" || !heading.dataset.column || Number.isNaN(number)) return value;
    const score = `${methodOf(row[0])}/${heading.dataset.column}`;
    return make("a", value, { href: link({ board, score, cell: "" }) }).outerHTML;
  }
  return { type: "num", orderSequence: ["desc", "asc"], render };
}

function passes(method) {
  const { encoder, post, fit, trained, q } = Object.fromEntries(new FormData(form));
  const words = q.toLowerCase().split(/\s+/);
  return (!encoder || encoderOf(method) === encoder)
    && (!post || postOf(method) === post)
    && (!fit || isTransductive(method) === (fit === "yes"))
    && (!trained || trainedOn(method) === trained)
    && words.every((word) => method.toLowerCase().includes(word));
}

function showBoard() {
  const board = form.elements.board.value;
  for (const part of document.querySelectorAll(".board")) part.hidden = part.id !== `board-${board}`;
  const table = tableOf(board);
  const headings = table.columns().header().toArray().slice(1);
  const names = headings.map((heading) => heading.textContent.trim());
  const wanted = form.elements.task.value;
  const tasks = headings.filter((heading) => heading.dataset.column);
  fill(form.elements.task, tasks.map((heading) => heading.textContent.trim()), "all");
  const task = names.includes(wanted) ? wanted : "";
  form.elements.task.value = task;
  names.forEach((name, index) => table.column(index + 1).visible(!task || name === task, false));
  if (task && task !== wanted) table.order([]);
  table.draw();
  const { recordsDisplay, recordsTotal } = table.page.info();
  document.getElementById("found").value = `${recordsDisplay} of ${recordsTotal} methods`;
}

function fill(select, values, any) {
  const options = values.map((value) => new Option(value, value));
  select.replaceChildren(new Option(any, ""), ...options);
}

// An apostrophe keeps a spreadsheet from computing a text; numbers stay.
function spreadsheetText(text) {
  return /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
}

function csvLine(values) {
  const quoted = values.map((value) => spreadsheetText(String(value)).replaceAll('"', '""'));
  return quoted.map((value) => `"${value}"`).join(",") + "\r\n";
}

function saveCsv() {
  const board = form.elements.board.value;
  const table = tableOf(board);
  const columns = table.columns(":visible");
  const headings = columns.header().toArray().map((heading) => heading.textContent.trim());
  const indexes = columns.indexes().toArray();
  let csv = csvLine(headings);
  for (const row of table.rows({ search: "applied" }).data().toArray()) {
    csv += csvLine(indexes.map((index) => (index ? row[index] : methodOf(row[index]))));
  }
  const address = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
  make("a", [], { href: address, download: `${board}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// The papers' tables

const MOST_OPENED = 3;  // tables that a search opens, if it finds no more
const headingOf = new Map();  // the paper's heading above each table
for (const part of document.querySelectorAll(".published-table")) {
  headingOf.set(part, part.closest(".paper").querySelector("h3"));
}

const wordsOf = (text) => text.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);

// A number is found as it is, another word by its beginning.
function includesWord(words, wanted) {
  const isNumber = /^\d+$/.test(wanted);
  return words.some((word) => isNumber ? word === wanted : word.startsWith(wanted));
}

function isFound(part, wanted) {
  const rows = [...part.querySelectorAll("tbody th")].map((heading) => heading.textContent);
  const title = part.querySelector("summary").dataset.title;
  const words = wordsOf([headingOf.get(part).textContent, title, ...rows].join(" "));
  return wanted.every((word) => includesWord(words, word));
}

function findTables() {
  const wanted = wordsOf(find.elements.words.value);
  const parts = [...headingOf.keys()];
  for (const part of parts) part.hidden = !isFound(part, wanted);
  const shown = parts.filter((part) => !part.hidden);
  const papers = new Set(shown.map((part) => headingOf.get(part)));
  for (const heading of headingOf.values()) heading.hidden = !papers.has(heading);
  if (wanted.length && shown.length <= MOST_OPENED) for (const part of shown) part.open = true;
  const found = wanted.length ? `${shown.length} of ${parts.length} tables` : "";
  document.getElementById("tables-found").value = found;
}

// Every number of the papers' tables opens.
function linkNumbers(table) {
  const columns = [...table.tHead.rows[0].cells].map((heading) => heading.dataset.column);
  for (const row of table.querySelectorAll("[data-row]")) {
    for (const element of row.cells) {
      const id = [table.dataset.table, row.dataset.row, columns[element.cellIndex]].join("/");
      const number = element.firstChild;
      if (!cells[id] || !number) continue;
      const anchor = make("a", number.textContent.trim(), { href: `#cell=${id}` });
      element.replaceChild(anchor, number);
      anchor.after(" ");
    }
  }
}

// Each paper's heading leads to the paper, by the address in the BibTeX entry of its first table.
function linkPaper(part, heading) {
  const table = part.id.slice("table-".length);
  const cell = Object.keys(cells).find((name) => name.startsWith(`${table}/`));
  if (!cell || heading.querySelector("a")) return;
  const [key] = textsOf(cells[cell].cites);
  const address = /\burl = \{(.*?)\}/.exec(data.bibtex[key])?.[1];
  if (address) heading.append(" ", make("a", kindOfAddress(address), { href: address }));
}

function kindOfAddress(address) {
  if (address.includes("arxiv")) return "arXiv";
  return address.includes("github") ? "code" : "paper";
}

// Texts with code and links

// Papers, code and models that a text names. A repository may be followed by `PATH @COMMIT`, or
// by `... commit COMMIT`.
const LINKS = [
  {
    pattern: /arXiv (?<paper>\d{4}\.\d{4,5}(v\d+)?)/,
    address: ({ paper }) => `https://arxiv.org/abs/${paper}`,
  },
  {
    pattern: /\bICLR 2017 (?<forum>\w+)/,
    address: ({ forum }) => `https://openreview.net/forum?id=${forum}`,
  },
  {
    pattern: /(?<place>github\.com\/[\w.-]+\/[\w./-]*\w)/,
    address: ({ place }) => `https://${place}`,
  },
];
const BEFORE_REPOSITORY = "(?:github |git log -p of |(?=embeddings-benchmark))";
const REPOSITORY = "(?<repository>[\\w.-]+\\/[\\w.-]*\\w)";
for (const commit of ["[^@]* @(?<commit>[0-9a-f]{7,40})", ".*? commit (?<commit>[0-9a-f]{7,40})"]) {
  LINKS.push({
    pattern: new RegExp(BEFORE_REPOSITORY + REPOSITORY + commit),
    address: ({ repository, commit }) => `https://github.com/${repository}/tree/${commit}`,
  });
}
LINKS.push({
  pattern: new RegExp(BEFORE_REPOSITORY + REPOSITORY),
  address: ({ repository }) => `https://github.com/${repository}`,
});

// A text in parts, the first name that leads somewhere as a link.
function linked(text) {
  for (const { pattern, address } of LINKS) {
    const match = pattern.exec(text);
    if (match) {
      const end = match.index + match[0].length;
      const anchor = make("a", match[0], { href: address(match.groups) });
      return [text.slice(0, match.index), anchor, text.slice(end)];
    }
  }
  return [text];
}

// A text in parts, code where it has backticks, and links outside of code.
function formatted(text) {
  const parts = [];
  text.split("`").forEach((part, index) => {
    if (index % 2) parts.push(make("code", part)); else parts.push(...linked(part));
  });
  return parts;
}

// The dialog

function showDialog() {
  const saved = hashState();
  const cell = saved.get("cell");
  const score = saved.get("score");
  if (cells[cell]) openDialog(publishedNumber(cell));
  else if (score && isMeasured(score)) openDialog(measuredScore(score));
  else if (dialog.open) dialog.close();
}

function openDialog({ title, body }) {
  document.getElementById("dialog-title").textContent = title;
  document.getElementById("dialog-body").replaceChildren(...body);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}

function forgetNumber() {
  if (!hashState().get("cell") && !hashState().get("score")) return;
  const rest = link({ cell: "", score: "" });
  history.replaceState(null, "", rest === "#" ? " " : rest);
}

// The dialog of a published number.
function publishedNumber(id) {
  const cell = cells[id];
  const method = textOf(cell.method);
  const tasks = textsOf(cell.tasks);
  const title = `${textOf(cell.label)}, ${textOf(cell.column)}`;
  const body = [largeNumbers(cell)];
  if (cell.seeds?.length > 1) {
    body.push(dots({ seeds: cell.seeds, published: parseFloat(cell.printed), half: cell.half_width }));
  }
  body.push(factList([
    ["published in", [textOf(cell.place)]],
    ["read from", [textOf(cell.source)]],
    ["protocol", [textOf(cell.protocol)]],
    ["evidence", [textOf(cell.evidence)]],
    ["method", [method]],
    ["model", modelLink(method)],
    ["trained on", [textOf(cell.trained)]],
    ["fitted on", [textOf(cell.fitted)]],
    ["notes", textsOf(cell.notes)],
    ["in other tables", textsOf(cell.standings)],
    ["under one other choice", textsOf(cell.neighbours)],
  ]));
  if (method && tasks.length) {
    const commands = [...textsOf(cell.needs), runCommand(method, tasks)];
    const cite = make("code", `harness cite ${id}`);
    body.push(
      make("h3", "Measure it"),
      copied(commands.join("\n"), "the command"),
      make("p", [cite, " prints the citation with full digests."]),
    );
  }
  const explain = `harness explain ${id} --mine YOUR_NUMBER`;
  body.push(make("h3", "Your number is another one?"), copied(explain, "the command"));
  body.push(...measuredWith(method, tasks));
  body.push(...citation(cell.cites, publishedSentence(cell, title)));
  return { title, body };
}

function largeNumbers({ printed, seeds, difference, state }) {
  const verdict = textOf(state);
  const numbers = [largeNumber("published", printed)];
  if (seeds) {
    const words = seeds.length > 1 ? `measured, mean of ${seeds.length} seeds` : "measured";
    numbers.push(largeNumber(words, mean(seeds).toFixed(2)));
    numbers.push(largeNumber("difference", signed(difference)));
  }
  const mark = make("span", verdict, { class: `verdict ${verdict.replaceAll(" ", "-")}` });
  numbers.push(largeNumber(seeds ? "verdict" : "state", mark));
  return make("div", numbers, { class: "big" });
}

const largeNumber = (words, number) => make("span", [make("small", words), number]);

function publishedSentence(cell, title) {
  const verdict = textOf(cell.state);
  const published = `${title} (${textOf(cell.protocol)}): published ${cell.printed} in ${textOf(cell.place)}`;
  if (!cell.seeds) {
    return `${published}; not measured by the sentence-embedding harness (${verdict}).`;
  }
  const score = `measured ${mean(cell.seeds).toFixed(2)} (${signed(cell.difference)}, ${verdict})`;
  return `${published}; ${measuredSentence(textOf(cell.method), textsOf(cell.tasks), score)}`;
}

// The dialog of a score of the leaderboard, METHOD/TASK/PATH.
function measuredScore(name) {
  const [method, task, path] = name.split("/");
  const scores = scoresOf(method, task);
  const seeds = scores[path];
  const { trained, note, cites } = data.methods[method];
  const score = mean(seeds).toFixed(2);
  const words = seeds.length > 1 ? `${pathInWords(path)}, mean of ${seeds.length} seeds` : pathInWords(path);
  const body = [make("div", largeNumber(words, score), { class: "big" })];
  if (seeds.length > 1) body.push(dots({ seeds }));
  const others = Object.keys(scores).filter((other) => other !== path);
  const otherScores = others.map((other) => `${pathInWords(other)} ${mean(scores[other]).toFixed(2)}`);
  body.push(factList([
    ["task", [task]],
    ["other scores", [otherScores.join("; ")]],
    ["model", modelLink(method)],
    ["trained on", [textOf(trained)]],
    ["fitted on", [method.split("@")[1] ?? ""]],
    ["note", [textOf(note)]],
  ]));
  body.push(...publishedOf(method, task));
  body.push(make("h3", "Measure it"), copied(runCommand(method, [task]), "the command"));
  body.push(...measuredWith(method, [task]));
  const sentence = measuredSentence(method, [task], `${task}, ${pathInWords(path)}: ${score} measured`);
  body.push(...citation(cites, sentence));
  return { title: `${method} on ${task}`, body };
}

const MOST_PUBLISHED = 12;  // published numbers of one method and task that a dialog lists

function publishedOf(method, task) {
  const items = [];
  for (const [id, cell] of Object.entries(cells)) {
    if (textOf(cell.method) !== method || !textsOf(cell.tasks).includes(task)) continue;
    const words = `${id}: ${cell.printed}, ${textOf(cell.state)}`;
    items.push(make("li", make("a", words, { href: link({ cell: id, score: "" }) })));
  }
  if (!items.length) return [];
  const list = make("ul", items.slice(0, MOST_PUBLISHED));
  return [make("h3", "Published numbers of this method and task"), list];
}

// The scores of a method on a task by path, one a seed; a path that is not defined has none.
const scoresOf = (method, task) => data.scores[method]?.[task]?.scores ?? {};

function isMeasured(name) {
  const [method, task, path] = name.split("/");
  return path in scoresOf(method, task);
}

// Parts of both dialogs

function pathInWords(path) {
  return path.replace("spearman", "Spearman").replace("pearson", "Pearson").replaceAll(".", ", ");
}

const signed = (number) => (number < 0 ? "−" : "+") + Math.abs(number).toFixed(2);
const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

// Names with their values; a name without a value is left out.
function factList(facts) {
  const items = [];
  for (const [name, values] of facts) {
    values.filter(Boolean).forEach((value, index) => {
      const content = typeof value === "string" ? formatted(value) : value;
      items.push(make("dt", index ? "" : name), make("dd", content));
    });
  }
  return make("dl", items);
}

function modelLink(method) {
  const source = data.sources[encoderOf(method).split(":")[0]];
  const repository = /^([\w.-]+\/[\w.-]+)(?:@|,)/.exec(source)?.[1];
  return repository ? [make("a", repository, { href: `https://huggingface.co/${repository}` })] : [];
}

// Seeds as dots on a line; the interval of a verdict as a band, the published number as a bar.
function dots({ seeds, published, half }) {
  const marks = published === undefined ? [...seeds] : [...seeds, published];
  const centre = mean(seeds);
  if (half) marks.push(centre - half, centre + half);
  const low = Math.min(...marks);
  const high = Math.max(...marks);
  const margin = Math.max((high - low) * 0.1, 0.25);
  const at = (value) => (30 + 400 * (value - low + margin) / (high - low + 2 * margin)).toFixed(1);
  const label = `${seeds.length} seeds: ${seeds.map((seed) => seed.toFixed(2)).join(", ")}`;
  const parts = [
    make("title", label),
    make("line", [], { x1: 30, x2: 430, y1: 24, y2: 24, stroke: "var(--line)" }),
  ];
  if (half) {
    const left = at(centre - half);
    const width = at(centre + half) - left;
    parts.push(make("rect", [], { x: left, width, y: 18, height: 12, fill: "var(--line)" }));
  }
  if (published !== undefined) {
    const place = { x1: at(published), x2: at(published), y1: 10, y2: 38 };
    parts.push(make("line", [], { ...place, stroke: "var(--bad)", "stroke-width": 2 }));
  }
  for (const seed of seeds) {
    const look = { r: 5, fill: "var(--link)", "fill-opacity": 0.75 };
    parts.push(make("circle", [], { cx: at(seed), cy: 24, ...look }));
  }
  for (const value of low === high ? [] : [low, high]) {
    parts.push(make("text", value.toFixed(2), { x: at(value), y: 52, "text-anchor": "middle" }));
  }
  return make("svg", parts, { viewBox: "0 0 460 58", role: "img", "aria-label": label });
}

function copied(content, label) {
  const shown = make("pre", content, { tabindex: 0 });
  const button = make("button", "Copy", { type: "button", "aria-label": `Copy ${label}` });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(content);
    } catch {  // a page from the file system may not write to the clipboard everywhere
      getSelection().selectAllChildren(shown);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return make("div", [shown, button], { class: "copy" });
}

function runCommand(method, tasks) {
  if (!method) return "";
  const encoder = method.split(/[.:]/)[0].replace(/-b?float16$/, "");
  const files = data.by_hand.includes(encoder) ? `--encoder ${encoder}=PATH ` : "";
  return `harness run ${files}-m '${method}' ${tasks.map((task) => `-t ${task}`).join(" ")}`;
}

// What was measured, with what and from which records, as a sentence ends.
function measuredSentence(method, tasks, score) {
  const digests = tasks.map((task) => data.scores[method]?.[task]?.records).filter(Boolean);
  const maker = method ? ` by ${method}` : "";
  const records = digests.length ? `, records sha256 ${digests.join(", ")}` : "";
  return `${score}${maker} with the sentence-embedding harness${records}.`;
}

function measuredWith(method, tasks) {
  const environments = new Set();
  const digests = new Set();
  const records = [];
  for (const task of tasks) {
    const measured = data.scores[method]?.[task];
    if (!measured) continue;
    environments.add(textOf(measured.environment));
    for (const digest of textsOf(measured.digests)) digests.add(digest);
    records.push(`${task} ${measured.records}`);
  }
  if (!records.length) return [];
  return [make("h3", "Measured with"), factList([
    ["environment", [...environments]],
    ["digests", [[...digests].join(", ")]],
    ["records", [records.join(", ")]],
  ])];
}

function citation(keys, sentence) {
  const papers = new Set([data.harness, ...textsOf(keys)]);
  const bibtex = [...papers].map((key) => data.bibtex[key]).join("\n\n");
  return [make("h3", "Cite"), copied(sentence, "the sentence"), copied(bibtex, "BibTeX")];
}

// What happens when the page is opened

for (const table of document.querySelectorAll("[data-table]")) linkNumbers(table);
for (const part of document.querySelectorAll("#papers .source")) {
  part.replaceChildren(...linked(part.textContent));
}
for (const [part, heading] of [...headingOf].reverse()) linkPaper(part, heading);

// A table that is wider than the page says so.
const observer = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    target.classList.toggle("scrolls", target.scrollWidth > target.clientWidth + 1);
  }
});
for (const part of document.querySelectorAll("main .wide")) observer.observe(part);

const distinct = (values) => [...new Set(values)].filter(Boolean).sort();
fill(form.elements.encoder, distinct(methods.map(encoderOf)), "any");
fill(form.elements.post, distinct(methods.map(postOf)), "any");
fill(form.elements.trained, distinct(methods.map(trainedOn)), "anything");
form.addEventListener("input", remember);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(remember));
find.addEventListener("input", findTables);
find.addEventListener("submit", (event) => event.preventDefault());
document.getElementById("csv").addEventListener("click", saveCsv);
document.addEventListener("click", (event) => {  // the filters stay while a published number opens
  const anchor = event.target.closest('a[href^="#cell="]');
  if (!anchor) return;
  event.preventDefault();
  const address = new URLSearchParams(anchor.getAttribute("href").slice(1));
  location.hash = link({ cell: address.get("cell"), score: "" });
});
dialog.addEventListener("close", forgetNumber);
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
addEventListener("hashchange", restore);
restore();
