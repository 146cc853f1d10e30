// The text that a model learned from: how often words occur, and Zipf's law.
import {get} from "../api.js";
import {chart} from "../chart.js";
import {h, number} from "../dom.js";
import {t} from "../language.js";
import {command, models, same, work} from "../panel.js";

export const title = () => t("Data");
export const fits = loaded => loaded.filter(model => model.offers.includes("/v1/data"));

export function build(panel, able, kept) {
  const results = h("div", {"aria-live": "polite"}), by = same();
  const reading = work(t("Count"), async signal => {
    const path = `/v1/data?model=${encodeURIComponent(kept.model)}`;
    const found = await get(path, signal);
    by.tell(path, undefined, found.files.map(file => command("stats", [file])).join("\n"));
    const most = found.top[0]?.count ?? 1;
    const bars = rows => h("div", {class: "bars"}, rows.flatMap(([name, count]) => [h("span", {dir: "auto"}, name), h("span", {}, number(count)), h("span", {class: "bar", style: {"--w": count / most}})]));
    results.replaceChildren(
      h("p", {class: "lead"}, t("{words} words, {distinct} different ones. The word of rank r occurs about as often as r to the power of -{exponent}.", {
        words: number(found.words), distinct: number(found.distinct), exponent: number(found.zipf.exponent)})),
      h("p", {class: "note"}, found.files.join(", ")),
      chart(t("How often the word of each rank occurs"), [{name: t("counted"), points: found.zipf.points}, {name: t("Zipf's law"), points: found.zipf.fitted, dashed: true}], {log: true, wide: true}) ?? "",
      h("div", {class: "two"},
        h("div", {}, h("h3", {}, t("The most frequent words")), bars(found.top.slice(0, 20).map(each => [each.word, each.count]))),
        h("div", {}, h("h3", {}, t("Two words in a row")), bars(found.bigrams.map(each => [each.word, each.count])))));
  });
  panel.append(h("div", {class: "fields"}, models(kept, able, () => reading.run()), ...reading.buttons), reading.said, results, by.element);
  reading.run();
}
