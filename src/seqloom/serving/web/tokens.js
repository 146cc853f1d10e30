// Tokens shaded by how surprising they were; a click tells what else could have stood there.
import {h, number, percent} from "./dom.js";
import {t} from "./language.js";

// 0 for what was certain, 0.75 from 10 nats on.
export const surprise = logProb => logProb === null ? 0.75 : Math.min(0.75, -logProb * 0.075);

// A button, and the line breaks that the text ends in: within a button they would not break the line that it stands in.
// Where there is nothing else to see, ↵ stands for them.
export function token(text, logProb, pressed, unknown = false) {
  const [, seen, breaks = ""] = text.match(/^(.*?)(\n\s*)?$/s);
  const told = [percent(logProb), t("{n} nats", {n: number(logProb === null ? Infinity : -logProb)}), ...(unknown ? [t("unknown to the model")] : [])];
  const button = h("button", {
    class: `token ${unknown ? "unknown" : ""}`, type: "button", title: told.join(" · "),
    style: {"--w": surprise(logProb)}, onclick: pressed,
  }, breaks && !seen.trim() ? `${seen}↵` : seen);
  return [button, breaks];
}

export const scale = () => h("span", {class: "scale", "aria-hidden": "true"}, t("expected"), h("i"), t("surprising"));

// The likeliest tokens at one place; choosing one calls `take` with it.
export function choices(said, likeliest, take) {
  const named = each => each.token.replaceAll("\n", "↵");
  const rows = likeliest.map(other => h("li", {}, h("button", {type: "button", onclick: () => take(other)},
    h("span", {class: "word"}, named(other)), h("span", {}, percent(other.log_prob)),
    h("span", {class: "bar", style: {"--w": Math.exp(other.log_prob)}}))));
  return h("div", {class: "choices", role: "group", "aria-label": t("What else could stand here")},
    h("strong", {}, named(said)), ` ${percent(said.log_prob)}. `, t("Choose another to go on from there:"), h("ul", {}, rows));
}
