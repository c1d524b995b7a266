"use strict";
const $ = id => document.getElementById(id);
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value != null) made.setAttribute(key, value);
  made.append(...children.filter(each => each != null));
  return made;
}
const ACCESS = {open: "no token", read: "token to read", write: "token to write"};
const kindOf = schema => schema.enum ? schema.enum.map(each => JSON.stringify(each)).join(" or ")
  : schema.anyOf || schema.oneOf ? (schema.anyOf || schema.oneOf).map(kindOf).join(" or ")
  : schema.type === "array" ? "list" + (schema.items && kindOf(schema.items) ? " of " + kindOf(schema.items) : "") : [schema.type || ""].flat().join(" or ");
function fields(title, rows) {
  return rows.length ? element("div", {class: "scroll"}, element("table", {}, element("thead", {}, element("tr", {}, element("th", {}, title), element("th", {}, "type"), element("th", {}, "meaning"))),
    element("tbody", {}, ...rows.map(([name, schema, needed]) => element("tr", {}, element("td", {}, element("code", {}, name), needed ? element("span", {class: "faint"}, " required") : ""),
      element("td", {}, kindOf(schema)), element("td", {}, schema.description || "")))))) : null;
}
const ofObject = schema => Object.entries((schema || {}).properties || {}).map(([name, each]) => [name, each, (schema.required || []).includes(name)]);
function operation(method, path, found) {
  const access = found.security.length ? found.security[0].token[0] : "open";
  const body = found.requestBody ? found.requestBody.content["application/json"] : null;
  const answer = Object.values(found.responses["200"].content)[0];
  const command = `curl ${location.origin}${path.replace("{index}", "INDEX")}` + (method === "get" ? "" : ` -X ${method.toUpperCase()}`)
    + (body ? ` -H 'Content-Type: application/json' -d '${JSON.stringify(body.example || {})}'` : "");
  return element("details", {class: "panel operation", "data-path": path}, element("summary", {}, element("b", {}, method.toUpperCase()), " ", element("code", {}, path), " ", element("span", {class: "faint"}, found.summary)),
    element("p", {class: "faint"}, `Needs ${ACCESS[access] || access}.`), element("pre", {}, command),
    fields("parameter", found.parameters.map(each => [each.name, each.schema, each.required])), body ? fields("field of the request", ofObject(body.schema)) : null, fields("field of the answer", ofObject(answer.schema)));
}
async function start() {
  const found = await (await fetch("/openapi.json")).json();
  $("version").textContent = "API of version " + found.info.version;
  $("operations").replaceChildren(...Object.entries(found.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, each]) => operation(method, path, each))));
}
start().catch(error => { $("message").textContent = error.message; $("message").hidden = false; });
