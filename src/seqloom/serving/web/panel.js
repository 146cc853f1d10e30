// What all panels have: a choice of models, fields that remember, work that can be stopped, errors, the same by hand.
import {get, token} from "./api.js";
import {h} from "./dom.js";
import {t} from "./language.js";

// Fields keep what was typed in `kept`, an object of the tab, so that nothing is lost when the language changes.
export function field(kept, name, label, first, given = {}) {
  kept[name] ??= first;
  const input = h(given.rows ? "textarea" : "input", {
    ...given, name, value: kept[name], dir: given.type === undefined ? "auto" : undefined,
    oninput: event => { kept[name] = event.target.value; given.changed?.(event.target.value); },
  });
  const wide = given.rows ? "wide" : given.type === "number" ? "short" : "";
  return h("label", {class: `field ${wide}`}, h("span", {}, label), input);
}

export function choice(kept, name, label, options, changed = () => {}) {
  if (!options.some(([value]) => value === kept[name])) kept[name] = options[0][0];
  const select = h("select", {name, onchange: event => { kept[name] = event.target.value; changed(kept[name]); }},
    options.map(([value, text]) => h("option", {value, selected: value === kept[name]}, text)));
  return h("label", {class: "field"}, h("span", {}, label), select);
}

export function check(kept, name, label, first = false) {
  kept[name] ??= first;
  const box = h("input", {type: "checkbox", name, onchange: event => { kept[name] = event.target.checked; }});
  box.checked = kept[name];
  return h("label", {class: "check"}, box, label);
}

export const models = (kept, able, changed, name = "model", label = t("Model")) =>
  choice(kept, name, label, able.map(model => [model.id, `${model.id} · ${model.kind}`]), changed);

export const numbered = (kept, name) => kept[name] === "" || kept[name] === undefined ? undefined : Number(kept[name]);

// A button that begins something and one that stops it; errors stand below as sentences.
export function work(label, action) {
  const said = h("div", {"aria-live": "assertive"});
  const begin = h("button", {class: "do first", type: "button"}, label);
  const stop = h("button", {class: "do", type: "button", hidden: true}, t("Stop"));
  let running = null;
  const run = async (...given) => {
    running?.abort();
    const mine = running = new AbortController();
    said.replaceChildren();
    stop.hidden = false;
    begin.setAttribute("aria-busy", "true");
    try {
      await action(mine.signal, ...given);
    } catch (error) {
      if (error.name !== "AbortError") said.replaceChildren(h("p", {class: "error", role: "alert"}, error.message));
    } finally {
      if (running === mine) {
        running = null;
        stop.hidden = true;
        begin.removeAttribute("aria-busy");
      }
    }
  };
  const end = () => running?.abort();
  begin.addEventListener("click", () => run());
  stop.addEventListener("click", end);
  return {buttons: [begin, stop], said, run, stop: end};
}

// Ctrl+Enter in a text begins the work.
export const hurry = (element, run) => element.addEventListener("keydown", event => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); }
});

const quoted = text => `'${text.replaceAll("'", String.raw`'\''`)}'`;
const word = text => /^[\w./:=,+-]+$/.test(text) ? text : quoted(text);

// seqloom generate RUN --option value ...: what is undefined is left out, true is a switch.
export function command(verb, first, options = {}) {
  const parts = ["seqloom", verb, ...first.filter(part => part !== undefined).map(part => word(String(part)))];
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === false || value === "") continue;
    parts.push(`--${name}`, ...(value === true ? [] : [word(String(value))]));
  }
  return parts.join(" ");
}

// A text on a line, for a command that reads lines; several are fields with tabs between them.
export const piped = (texts, line) => `printf '${texts.map(() => "%s").join("\\t")}\\n' ${texts.map(quoted).join(" ")} | ${line}`;

// The same by curl and by the command line, for whoever wants to do it again.
export function same() {
  const curl = h("pre", {class: "curl", tabindex: "0"}), line = h("pre", {class: "cli", tabindex: "0"});
  const element = h("details", {class: "same", hidden: true}, h("summary", {}, t("The same from the command line")), curl, line);
  const tell = (path, body, typed) => {
    element.hidden = false;
    const sent = body === undefined ? "" : ` -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(body, shortened))}`;
    const known = token.get() ? ` -H "Authorization: Bearer $(cat TOKEN-FILE)"` : "";
    curl.textContent = `curl ${word(location.origin + path)}${known}${sent}`;
    line.textContent = typed ?? "";
    line.hidden = !typed;
  };
  return {element, tell};
}
const shortened = (_, value) => typeof value === "string" && value.length > 400 ? `${value.slice(0, 20)}…` : value;

// What could be tried, from the data that the model did not learn from.
const known = new Map();
export async function examples(model) {
  if (!known.has(model)) known.set(model, get(`/v1/examples?model=${encodeURIComponent(model)}&n=6`).catch(() => ({})));
  return known.get(model);
}
export function tryThese(model, take, sort = "texts") {
  const row = h("div", {class: "examples"});
  examples(model).then(found => {
    const texts = found[sort] ?? found.texts;
    if (!texts?.length) return;
    row.append(h("span", {}, t("Try")), ...texts.slice(0, 4).map(text =>
      h("button", {class: "do small", type: "button", title: text, dir: "auto", onclick: () => take(text)}, text)));
  });
  return row;
}
