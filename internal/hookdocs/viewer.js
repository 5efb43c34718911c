// Shows the OpenAPI documents of runtime hooks. All text is set as text, never as HTML.
"use strict";

const catalogs = ["all", "capi", "host"];
const state = { catalog: "all", document: null, hook: "" };
const byId = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) e.setAttribute(key, value === true ? "" : value);
  }
  e.append(...children.filter((child) => child !== null && child !== undefined));
  return e;
}

// operations lists the hooks of the document, ordered by group, name and version.
function operations() {
  return Object.entries(state.document.paths)
    .filter(([, item]) => item.post)
    .map(([path, item]) => {
      const [group, version] = path.replace("/{name}", "").split("/").slice(-3);
      return { path, group, version, name: item.post.operationId.slice(version.length), ...item.post };
    })
    .sort((a, b) => (a.group + a.name + b.version).localeCompare(b.group + b.name + a.version));
}

function badges(op) {
  return [
    element("span", { class: "badge" }, op.version),
    op["x-blocking"] ? element("span", { class: "badge blocking" }, "blocking") : null,
    op.deprecated ? element("span", { class: "badge deprecated" }, "deprecated") : null,
  ];
}

function renderList() {
  const wanted = byId("filter").value.trim().toLowerCase();
  const nav = byId("hooks");
  nav.replaceChildren();
  let tag = "";
  const shown = operations()
    .map((op) => ({ ...op, tag: (op.tags || ["Hooks"])[0] }))
    .filter((op) => (op.name + op.group + op.version + (op.summary || "") + (op.description || "")).toLowerCase().includes(wanted))
    .sort((a, b) => a.tag.localeCompare(b.tag));
  for (const op of shown) {
    if (op.tag !== tag) nav.append(element("h2", {}, (tag = op.tag)));
    nav.append(element("a", { href: "#" + state.catalog + op.path, "aria-current": op.path === state.hook ? "true" : undefined }, op.name, element("span", {}, ...badges(op).filter(Boolean))));
  }
  if (shown.length === 0) nav.append(element("p", { class: "field" }, "No hook matches the filter."));
}

function resolve(schema) {
  let from = schema;
  if (!from.$ref && from.allOf && from.allOf.length === 1) from = { ...from.allOf[0], description: schema.description };
  if (!from.$ref) return { schema: from, name: "" };
  const name = from.$ref.replace("#/components/schemas/", "");
  return { schema: { ...state.document.components.schemas[name], description: schema.description || state.document.components.schemas[name]?.description }, name };
}

function typeName(schema) {
  const { schema: s, name } = resolve(schema);
  if (s.items) return "array of " + typeName(s.items);
  if (s.additionalProperties) return "map of " + typeName(s.additionalProperties);
  return name.split(".").pop() || [s.type || "any", s.format].filter(Boolean).join(", ");
}

// inner is the schema whose fields are worth unfolding.
function inner(schema) {
  const { schema: s } = resolve(schema);
  if (s.items) return inner(s.items);
  if (s.additionalProperties) return inner(s.additionalProperties);
  return s.properties ? s : null;
}

// fields renders one level; deeper ones when they are unfolded, since types recur.
function fields(schema) {
  const required = new Set(schema.required || []);
  return Object.keys(schema.properties).sort().map((name) => {
    const field = schema.properties[name];
    const head = [element("code", {}, name), " ", element("span", { class: "type" }, typeName(field)), required.has(name) ? element("span", { class: "required" }, " required") : null].filter(Boolean);
    const description = resolve(field).schema.description;
    const text = description ? element("p", {}, description) : null;
    const deeper = inner(field);
    if (!deeper) return element("div", { class: "field" }, ...head, text);
    const details = element("details", {}, element("summary", {}, ...head), text);
    details.addEventListener("toggle", () => details.append(...fields(deeper)), { once: true });
    return details;
  });
}

function body(title, content) {
  const media = content?.["application/json"];
  if (!media) return [];
  const schema = inner(media.schema);
  const parts = [element("h3", {}, title)];
  if (schema) parts.push(...fields(schema));
  if (media.example) parts.push(element("details", {}, element("summary", {}, "Example"), element("pre", {}, JSON.stringify(media.example, null, 2))));
  return parts;
}

function lifecycle(life = {}) {
  const words = [["introduced in", life.introduced], ["deprecated since", life.deprecated], ["removed in", life.removed], ["replaced by", life.replacement]];
  return words.filter(([, value]) => value).map(([word, value]) => word + " " + value).join(", ");
}

function renderHook() {
  const op = operations().find((candidate) => candidate.path === state.hook);
  const article = byId("hook");
  if (!op) {
    article.replaceChildren(element("p", {}, "Choose a hook."));
    return;
  }
  const life = lifecycle(op["x-lifecycle"]);
  article.replaceChildren(
    element("h2", {}, op.name),
    element("p", {}, ...badges(op).filter(Boolean).flatMap((badge) => [badge, " "])),
    element("p", {}, element("code", {}, "POST " + op.path)),
    element("p", {}, op.summary || ""),
    element("p", { class: "prose" }, op.description || ""),
    element("p", {}, life),
    ...body("Request", op.requestBody?.content),
    ...body("Response", op.responses?.["200"]?.content),
  );
}

async function show() {
  const [, catalog, path] = location.hash.match(/^#([a-z]+)?(\/.*)?$/) || [];
  const wanted = catalogs.includes(catalog) ? catalog : "all";
  if (!state.document || wanted !== state.catalog) {
    const answer = await fetch("v3/" + wanted + ".json");
    if (!answer.ok) throw new Error("v3/" + wanted + ".json: HTTP status " + answer.status);
    state.document = await answer.json();
    state.catalog = wanted;
  }
  state.hook = decodeURI(path || "");
  document.title = byId("title").textContent = state.document.info.title + ", " + state.document.info.version;
  byId("catalog").value = state.catalog;
  byId("raw").href = "v3/" + state.catalog + ".json";
  renderList();
  renderHook();
}

function start() {
  byId("catalog").append(...catalogs.map((name) => element("option", {}, name)));
  byId("catalog").addEventListener("change", (event) => { location.hash = event.target.value; });
  byId("filter").addEventListener("input", renderList);
  const shown = () => show().catch((error) => byId("hook").replaceChildren(element("p", { role: "alert" }, String(error))));
  addEventListener("hashchange", shown);
  shown();
}

start();
