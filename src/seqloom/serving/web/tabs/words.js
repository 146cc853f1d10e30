// Word vectors: neighbours, analogies, a map.
import {ask} from "../api.js";
import {h, number} from "../dom.js";
import {t} from "../language.js";
import {command, examples, field, models, same, work} from "../panel.js";

export const title = () => t("Words");
export const fits = loaded => loaded.filter(model => model.offers.includes("/v1/words"));

export function build(panel, able, kept) {
  const near = h("div", {"aria-live": "polite"}), like = h("div", {"aria-live": "polite"}), map = h("div"), tries = h("div", {class: "examples"});
  const by = same();
  const path = () => able.find(each => each.id === kept.model).path;
  const bars = found => h("div", {class: "bars"}, found.flatMap(each => [
    h("span", {dir: "auto"}, each.word), h("span", {}, number(each.similarity)), h("span", {class: "bar", style: {"--w": Math.max(0, each.similarity)}})]));

  const neighbours = work(t("Neighbours"), async signal => {
    const body = {model: kept.model, do: "neighbours", words: kept.word.split(/\s+/).filter(Boolean), n: 10};
    by.tell("/v1/words", body, command("words neighbours", [path(), ...body.words]));
    const found = (await ask("/v1/words", body, signal)).neighbours;
    near.replaceChildren(...found.flatMap(each => [h("h3", {dir: "auto"}, each.word), bars(each.near)]));
  });
  const analogy = work(t("Find"), async signal => {
    const body = {model: kept.model, do: "analogy", a: kept.a.trim(), b: kept.b.trim(), c: kept.c.trim(), n: 5};
    by.tell("/v1/words", body, command("words analogy", [path(), body.a, body.b, body.c]));
    like.replaceChildren(bars((await ask("/v1/words", body, signal)).words));
  });
  const mapping = work(t("Draw the map"), async signal => {
    const body = {model: kept.model, do: "map", n: Number(kept.n)};
    by.tell("/v1/words", body, command("words map", [path()], {number: body.n, out: "map.svg"}));
    const {points} = await ask("/v1/words", body, signal);
    map.replaceChildren(h("div", {class: "map"}, points.map(each => h("button", {
      type: "button", dir: "auto", style: {left: `${4 + 92 * each.x}%`, top: `${96 - 92 * each.y}%`}, onclick: () => choose(each.word),
    }, each.word))), h("p", {class: "note"}, t("Words that are used alike stand near each other. A click shows a word's neighbours.")));
  });

  const word = field(kept, "word", t("Words"), "");
  word.addEventListener("keydown", event => event.key === "Enter" && neighbours.run());
  const choose = said => { word.querySelector("input").value = kept.word = said; neighbours.run(); };
  const suggest = () => examples(kept.model).then(({words}) => words?.length && tries.replaceChildren(h("span", {}, t("Try")), ...words.slice(0, 6).map(said =>
    h("button", {class: "do small", type: "button", onclick: () => choose(said)}, said))));
  panel.append(
    h("div", {class: "fields"}, models(kept, able, suggest)),
    h("h2", {}, t("Neighbours")), h("div", {class: "fields"}, word, ...neighbours.buttons), tries, neighbours.said, near,
    h("h2", {}, t("Analogies")), h("div", {class: "fields"}, field(kept, "a", t("This"), ""), field(kept, "b", t("is to this"), ""), field(kept, "c", t("as this is to …"), ""), ...analogy.buttons), analogy.said, like,
    h("h2", {}, t("Map")), h("div", {class: "fields"}, field(kept, "n", t("How many"), "150", {type: "number", min: 10, max: 500}), ...mapping.buttons), mapping.said, map,
    by.element);
  suggest();
}
