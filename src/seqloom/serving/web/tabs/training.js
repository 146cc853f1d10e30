// How a training goes or went: curves that grow while it runs in another process.
import {get} from "../api.js";
import {chart} from "../chart.js";
import {h, number, seconds} from "../dom.js";
import {t} from "../language.js";
import {command, same} from "../panel.js";

const EVERY = 2000;  // milliseconds
export const title = () => t("Training");
export const fits = loaded => loaded.filter(model => model.offers.includes("/v1/training"));

export function build(panel, able, kept, leaving) {
  kept.chosen ??= [able[0].id];
  const states = h("div", {"aria-live": "off"}), said = h("div"), by = same();
  let ended = false, timer = null;

  async function look() {
    clearTimeout(timer);
    const chosen = kept.chosen.filter(id => able.some(model => model.id === id));
    if (!chosen.length) return states.replaceChildren(h("p", {class: "note"}, t("Choose a run.")));
    const path = `/v1/training?model=${encodeURIComponent(chosen[0])}`;
    by.tell(path, undefined, command("watch", chosen.map(id => able.find(model => model.id === id).path)));
    let goesOn = true;  // after a failure too
    try {
      const runs = await Promise.all(chosen.map(id => get(`/v1/training?model=${encodeURIComponent(id)}`)));
      if (ended) return;
      said.replaceChildren();
      draw(runs, chosen);
      goesOn = runs.some(run => ["beginning", "training"].includes(run.state));
    } catch (error) {
      if (ended) return;
      if (said.textContent !== error.message) said.replaceChildren(h("p", {class: "error", role: "alert"}, error.message));
    }
    if (goesOn) timer = setTimeout(look, EVERY);
  }

  function draw(runs, names) {
    const titles = [...new Set(runs.flatMap(run => run.panels.map(panel => panel.title)))];
    const charts = titles.map((title, place) => chart(title, runs.flatMap((run, number) => {
      const lines = run.panels.find(panel => panel.title === title)?.lines ?? [];
      return lines.map((line, index) => ({...line, series: runs.length > 1 ? number : index, dashed: runs.length > 1 && index > 0, name: [runs.length > 1 && names[number], line.name].filter(Boolean).join(" ")}));
    }), {wide: place === 0}));
    states.replaceChildren(...runs.map(state), h("div", {class: "charts"}, charts.filter(Boolean)), ...runs.flatMap((run, place) => samples(run, names[place])));
  }

  const state = (run, place) => h("dl", {}, [
    [t("Run"), kept.chosen[place] ?? run.name],
    [t("State"), t(run.state)],
    [t("Step"), run.steps ? `${number(run.step)} / ${number(run.steps)}` : number(run.step)],
    [t("Per second"), number(run.tokens_per_second)],
    [t("Took"), seconds(run.seconds)],
    ...(run.state === "finished" ? [] : [[t("Left"), seconds(run.left)]]),
    ...(run.best ? [[t("Best"), run.best.text]] : []),
  ].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));

  const samples = (run, name) => run.samples?.length ? [h("h3", {}, t("What {name} wrote at its validations", {name})),
    ...run.samples.slice(-6).reverse().map(each => h("p", {class: "sample", dir: "auto"}, h("small", {}, `${t("Step")} ${number(each.step)} `), each.input ? `${each.input} ` : "", each.text))] : [];

  const boxes = able.map(model => {
    const box = h("input", {type: "checkbox", onchange: () => {
      kept.chosen = able.map(each => each.id).filter(id => id === model.id ? box.checked : kept.chosen.includes(id));
      look();
    }});
    box.checked = kept.chosen.includes(model.id);
    return h("label", {class: "check"}, box, model.id);
  });
  panel.append(h("div", {class: "fields", role: "group", "aria-label": t("Run")}, boxes), said, states, by.element);
  look();
  leaving(() => { ended = true; clearTimeout(timer); });
}
