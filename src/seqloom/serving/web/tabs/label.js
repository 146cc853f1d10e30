// What texts are: classes of whole texts, tags of their words.
import {ask} from "../api.js";
import {h, percent} from "../dom.js";
import {t} from "../language.js";
import {command, field, hurry, models, piped, same, tryThese, work} from "../panel.js";

export const title = () => t("Label");
export const fits = loaded => loaded.filter(model => model.offers.includes("/v1/label"));

export function build(panel, able, kept) {
  const results = h("div", {"aria-live": "polite"}), tries = h("div");
  const by = same();
  async function label(signal) {
    const body = {model: kept.model, texts: kept.text};
    by.tell("/v1/label", body, piped([kept.text], command("predict", [able.find(each => each.id === kept.model).path], {input: "-"})));
    const [found] = (await ask("/v1/label", body, signal)).labels;
    results.replaceChildren(found.probabilities ? classes(found) : tags(found));
  }
  const classes = ({probabilities}) => h("div", {class: "bars"}, Object.entries(probabilities).sort((one, other) => other[1] - one[1]).slice(0, 12).flatMap(([name, share]) =>
    [h("span", {}, name), h("span", {}, percent(Math.log(share))), h("span", {class: "bar", style: {"--w": share}})]));
  const tags = found => h("table", {class: "plain"}, h("tbody", {}, found.tags.map((tag, place) =>
    h("tr", {}, h("td", {dir: "auto"}, found.words[place]), h("td", {}, h("strong", {}, tag))))));
  const labelling = work(t("Label"), label);
  const text = field(kept, "text", t("Text"), "", {rows: 2});
  hurry(text, () => labelling.run());
  const suggest = () => tries.replaceChildren(tryThese(kept.model, said => { text.querySelector("textarea").value = kept.text = said; labelling.run(); }));
  panel.append(h("div", {class: "fields"}, models(kept, able, suggest)), text, tries, h("div", {class: "fields"}, ...labelling.buttons), labelling.said, results, by.element);
  suggest();
}
