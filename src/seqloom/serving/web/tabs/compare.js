// The ladder: what is loaded side by side, and the same beginning for all.
import {ask, get, sentence} from "../api.js";
import {chart} from "../chart.js";
import {h, number} from "../dom.js";
import {t} from "../language.js";
import {command, field, hurry, numbered, same, work} from "../panel.js";

export const title = () => t("Compare");
export const fits = loaded => loaded.length > 1 ? loaded : [];

export function build(panel, able, kept) {
  const ladder = h("div"), texts = h("div", {"aria-live": "polite"}), by = same();
  // Figures can be compared where they are of the same thing, on the same data, in the same tokens.
  const tokens = id => able.find(model => model.id === id).facts.find(fact => fact.startsWith("vocabulary"));
  const yardstick = run => [run.figure.title, run.data, tokens(run.model)].join("|");
  // A run that cannot be read has an error, and nothing else.
  const cells = run => [
    [run.kind, ...Object.entries(run.parts).filter(([, kind]) => kind !== "none").map(part => part.join(" "))].join(", "),
    run.figure ? run.figure.title : "–", run.figure ? number(run.figure.value, 4) : "–", number(run.parameters), run.data,
  ].map(text => h("td", {}, text));
  const row = run => h("tr", {}, h("th", {scope: "row"}, run.model),
    run.error ? h("td", {colspan: 5}, h("div", {class: "error"}, sentence(run.error))) : cells(run));
  const listing = work(t("Look again"), async signal => {
    by.tell("/v1/runs", undefined, command("compare", able.map(model => model.path)));
    const {runs} = await get("/v1/runs", signal);
    const head = [t("Model"), t("Kind"), t("Figure"), t("Value"), t("Parameters"), t("Data")].map(name => h("th", {scope: "col"}, name));
    const groups = new Map();
    for (const run of runs.filter(run => run.figure && run.parameters)) groups.set(yardstick(run), [...groups.get(yardstick(run)) ?? [], run]);
    const shared = [...groups.values()].filter(group => group.length > 1);
    ladder.replaceChildren(h("div", {class: "scroll", tabindex: "0"}, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, runs.map(row)))),
      ...shared.map(group => chart(t("{figure} against parameters, {data}", {figure: group[0].figure.title, data: group[0].data}), group.map(run => ({name: run.model, points: [[run.parameters, run.figure.value]]})), {log: true, wide: true, marks: true})));
  });
  const writers = able.filter(model => model.offers.includes("/v1/completions"));
  const writing = work(t("Write"), async signal => {
    const options = {prompt: kept.prompt, max_length: numbered(kept, "length") ?? 30, temperature: 0.8, seed: 0, strategy: "sample"};
    by.tell("/v1/generate", {model: writers[0].id, ...options}, command("generate", [writers[0].path], {prompt: kept.prompt, "max-length": options.max_length, temperature: 0.8}));
    const found = await Promise.all(writers.map(model => ask("/v1/generate", {model: model.id, ...options}, signal)));
    texts.replaceChildren(h("div", {class: "two"}, found.map(each => h("div", {}, h("h3", {}, each.model), h("p", {class: "output", dir: "auto"}, h("span", {class: "given"}, kept.prompt), each.outputs[0].text)))));
  });
  const prompt = field(kept, "prompt", t("The same beginning for all"), "", {rows: 2});
  hurry(prompt, () => writing.run());
  panel.append(h("div", {class: "fields"}, ...listing.buttons), listing.said, ladder,
    ...(writers.length > 1 ? [h("h2", {}, t("Side by side")), prompt, h("div", {class: "fields"}, field(kept, "length", t("Tokens at most"), "30", {type: "number", min: 1, max: 500}), ...writing.buttons), writing.said, texts] : []),
    by.element);
  listing.run();
}
