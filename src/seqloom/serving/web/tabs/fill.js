// What may stand in blanks.
import {ask} from "../api.js";
import {h, percent} from "../dom.js";
import {t} from "../language.js";
import {command, field, hurry, models, same, tryThese, work} from "../panel.js";

export const title = () => t("Fill in");
export const fits = loaded => loaded.filter(model => model.offers.includes("/v1/fill"));

export function build(panel, able, kept) {
  const results = h("div", {"aria-live": "polite"}), tries = h("div");
  const by = same();
  async function fill(signal) {
    const body = {model: kept.model, texts: kept.text, top: 8};
    by.tell("/v1/fill", body, command("fill", [able.find(each => each.id === kept.model).path, kept.text], {top: 8}));
    const [filled] = (await ask("/v1/fill", body, signal)).filled;
    results.replaceChildren(h("p", {class: "output", dir: "auto"}, filled.filled), ...filled.blanks.map(blank =>
      h("div", {class: "bars"}, blank.flatMap(each => [
        h("span", {dir: "auto"}, each.token), h("span", {}, percent(Math.log(each.probability))),
        h("span", {class: "bar", style: {"--w": each.probability}})]))));
  }
  const filling = work(t("Fill in"), fill);
  const text = field(kept, "text", t("A text with [MASK] in it"), "", {rows: 2});
  hurry(text, () => filling.run());
  const suggest = () => tries.replaceChildren(tryThese(kept.model, said => { text.querySelector("textarea").value = kept.text = said; filling.run(); }));
  panel.append(h("div", {class: "fields"}, models(kept, able, suggest)), text, tries, h("div", {class: "fields"}, ...filling.buttons), filling.said, results, by.element);
  suggest();
}
