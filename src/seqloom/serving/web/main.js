// The page: its head, the tabs that fit what is loaded, and the one that is open.
import {get, token} from "./api.js";
import {h} from "./dom.js";
import {language, speak, t} from "./language.js";
import * as complete from "./tabs/complete.js";
import * as answer from "./tabs/answer.js";
import * as fill from "./tabs/fill.js";
import * as label from "./tabs/label.js";
import * as score from "./tabs/score.js";
import * as words from "./tabs/words.js";
import * as images from "./tabs/images.js";
import * as compare from "./tabs/compare.js";
import * as data from "./tabs/data.js";
import * as training from "./tabs/training.js";

const TABS = {complete, answer, fill, label, score, words, images, compare, data, training};
const kept = Object.fromEntries(Object.keys(TABS).map(name => [name, {}]));
let loaded = [];
let leave = () => {};

// Wait until the models are there, then show them; ask for the token where the server wants one.
async function begin() {
  show(h("p", {class: "note", role: "status"}, t("Loading the models …")));
  for (;;) {
    const health = await fetch("/health").catch(() => null);
    if (health?.ok) break;
    await new Promise(done => setTimeout(done, 300));
  }
  try {
    loaded = (await get("/v1/models")).data;
    draw();
  } catch (error) {
    if (error.status === 401) askForToken(token.get() !== null);
    else show(h("p", {class: "error", role: "alert"}, error.message));
  }
}

function askForToken(wrong) {
  const input = h("input", {type: "password", autocomplete: "off", required: true});
  show(h("form", {class: "fields", onsubmit: event => { event.preventDefault(); token.set(input.value); begin(); }},
    h("label", {class: "field"}, h("span", {}, t("This server wants a token")), input),
    h("button", {class: "do first"}, t("Enter"))),
  wrong && h("p", {class: "error", role: "alert"}, t("This is not the server's token.")));
  input.focus();
}

function show(...parts) {
  document.documentElement.lang = language();
  const other = language() === "zh" ? ["en", "English"] : ["zh", "中文"];
  const all = h("a", {href: "/docs", onclick: event => { event.preventDefault(); endpoints(); }}, t("All endpoints"));
  const head = h("header", {}, h("h1", {}, "seqloom"), loaded.length > 0 && all,
    h("button", {class: "do small", type: "button", id: "language", lang: other[0], onclick: () => { speak(other[0]); loaded.length ? draw() : begin(); }}, other[1]));
  document.body.replaceChildren(h("main", {}, head, ...parts.filter(Boolean)));
}

function draw() {
  const fitting = Object.entries(TABS).map(([name, tab]) => [name, tab, tab.fits(loaded)]).filter(([, , able]) => able.length);
  const asked = location.hash.slice(1);
  const [name, tab, able] = fitting.find(([name]) => name === asked) ?? fitting[0];
  const buttons = fitting.map(([each, {title}]) => h("button", {
    role: "tab", type: "button", id: `tab-${each}`, "aria-selected": String(each === name), "aria-controls": "panel",
    tabindex: each === name ? 0 : -1, onclick: () => open(each),
  }, title()));
  const list = h("div", {role: "tablist", "aria-label": t("What to do"), onkeydown: event => {
    const by = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!by) return;
    const next = (fitting.findIndex(([each]) => each === name) + by + fitting.length) % fitting.length;
    open(fitting[next][0]);
    document.getElementById(`tab-${fitting[next][0]}`).focus();
  }}, buttons);
  leave();
  const leaving = [];
  leave = () => leaving.forEach(each => each());
  const panel = h("div", {role: "tabpanel", id: "panel", "aria-labelledby": `tab-${name}`});
  show(list, panel);
  document.title = `${tab.title()} · seqloom`;
  tab.build(panel, able, kept[name], each => leaving.push(each));
}

// What /docs lists, shown here: a link would not send the token.
async function endpoints() {
  const back = h("p", {}, h("button", {class: "do small", type: "button", onclick: draw}, t("Back")));
  leave();
  leave = () => {};
  try {
    const {paths} = await get("/openapi.json");
    const rows = Object.entries(paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, {summary}]) =>
      h("tr", {}, h("td", {}, method.toUpperCase()), h("td", {}, h("code", {}, path)), h("td", {}, summary))));
    show(back, h("div", {class: "scroll", tabindex: "0"}, h("table", {}, h("tbody", {}, rows))));
  } catch (error) {
    show(back, h("p", {class: "error", role: "alert"}, error.message));
  }
}

function open(name) {
  history.replaceState(null, "", `#${name}`);
  draw();
}

addEventListener("hashchange", () => loaded.length && draw());
begin();
