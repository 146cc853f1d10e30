// Tokens shaded by how surprising they were; a click tells what else could have stood there.
import {h, number, percent} from "./dom.js";
import {t} from "./language.js";

// 0 for what was certain, 0.75 from 10 nats on.
export const surprise = logProb => logProb === null ? 0.75 : Math.min(0.75, -logProb * 0.075);

export function token(text, logProb, pressed, unknown = false) {
  const told = [percent(logProb), t("{n} nats", {n: number(logProb === null ? Infinity : -logProb)}), ...(unknown ? [t("unknown to the model")] : [])];
  return h("button", {
    class: `token ${unknown ? "unknown" : ""}`, type: "button", title: told.join(" · "),
    style: {"--w": surprise(logProb)}, onclick: pressed,
  }, text);
}

export const scale = () => h("span", {class: "scale", "aria-hidden": "true"}, t("expected"), h("i"), t("surprising"));

// The likeliest tokens at one place; choosing one calls `take` with it.
export function choices(said, likeliest, take) {
  const rows = likeliest.map(other => h("li", {}, h("button", {type: "button", onclick: () => take(other)},
    h("span", {class: "word"}, other.token), h("span", {}, percent(other.log_prob)),
    h("span", {class: "bar", style: {"--w": Math.exp(other.log_prob)}}))));
  return h("div", {class: "choices", role: "group", "aria-label": t("What else could stand here")},
    h("strong", {}, said.token), ` ${percent(said.log_prob)}. `, t("Choose another to go on from there:"), h("ul", {}, rows));
}
