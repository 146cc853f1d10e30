// How probable a text is, token by token; two models side by side.
import {ask} from "../api.js";
import {h, number} from "../dom.js";
import {t} from "../language.js";
import {choice, command, field, hurry, models, piped, same, tryThese, work} from "../panel.js";
import {scale, token} from "../tokens.js";

export const title = () => t("Score");
export const fits = loaded => loaded.filter(model => model.offers.includes("/v1/score"));

export function build(panel, able, kept) {
  const results = h("div", {class: "two", "aria-live": "polite"}), sources = h("div"), tries = h("div");
  const by = same();
  const model = id => able.find(each => each.id === id);

  async function score(signal) {
    const chosen = [kept.model, kept.other].filter(id => id).map(model);
    const bodies = chosen.map(each => ({model: each.id, texts: kept.text, ...(each.sources ? {sources: kept.source} : {})}));
    const line = chosen[0].sources ? [kept.source, kept.text] : [kept.text];
    by.tell("/v1/score", bodies[0], piped(line, command("score", [chosen[0].path], {input: "-", tokens: true})));
    const found = await Promise.all(bodies.map(body => ask("/v1/score", body, signal)));
    results.replaceChildren(...found.map(told));
  }

  function told(answer) {
    const [score] = answer.scores;
    const tokens = (score.token_scores ?? []).flatMap(each =>
      [...token(each.text, each.log_prob, undefined, each.unknown), " "]);
    const estimate = answer.estimate ? ` (${answer.estimate})` : "";
    return h("section", {style: {"margin-top": "0"}}, h("h3", {}, answer.model), h("div", {class: "output", dir: "auto"}, tokens.length ? tokens : kept.text),
      h("p", {}, t("log p {p}{estimate}, {n} tokens, perplexity {perplexity}", {
        p: number(score.log_prob, 5), estimate, n: score.tokens, perplexity: number(answer.perplexity, 4),
      }), score.unknown ? ` · ${t("{n} unknown", {n: score.unknown})}` : ""));
  }

  const scoring = work(t("Score"), score);
  const text = field(kept, "text", t("Text"), "", {rows: 3});
  hurry(text, () => scoring.run());
  const changed = () => {
    const needed = [kept.model, kept.other].some(id => id && model(id)?.sources);
    sources.replaceChildren(...(needed ? [field(kept, "source", t("Source"), "", {rows: 2})] : []));
    tries.replaceChildren(needed ? "" : tryThese(kept.model, said => { text.querySelector("textarea").value = kept.text = said; scoring.run(); }, "lines"));
  };
  panel.append(
    h("div", {class: "fields"}, models(kept, able, changed),
      choice(kept, "other", t("beside"), [["", "–"], ...able.map(each => [each.id, each.id])], changed)),
    sources, text, tries, h("div", {class: "fields"}, ...scoring.buttons, scale()), scoring.said, results, by.element);
  changed();
}
