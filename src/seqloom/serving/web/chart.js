// Lines over numbers, small and readable: [{name, points: [[x, y], ...], dashed?}]; axes may be logarithmic.
import {h, number, s} from "./dom.js";

const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#6b7785", "#56b4e9", "#8c564b"];
export const color = place => `var(--series-${place % 8}, ${COLORS[place % 8]})`;

const ticks = (from, to, log) => {
  if (log) {  // powers of ten; with what lies between them where there are few, and evenly where there are none
    const parts = to - from < 2 ? [1, 2, 5] : [1], found = [];
    for (let power = Math.floor(from); power <= to; power++) found.push(...parts.map(part => power + Math.log10(part)));
    const inside = found.filter(at => at >= from - 1e-9 && at <= to + 1e-9);
    return inside.length > 1 ? inside : ticks(10 ** from, 10 ** to, false).map(Math.log10);
  }
  const rough = (to - from) / 6 || 1, base = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(by => by * base).find(by => by >= rough);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to + 1e-9; at += step) found.push(at);
  return found;
};

export function chart(title, lines, {log = false, wide = false, marks = false} = {}) {
  const scale = log ? value => Math.log10(Math.max(value, 1e-12)) : value => value;
  const drawn = lines.filter(line => line.points.length);
  const points = drawn.flatMap(line => line.points).map(([x, y]) => [scale(x), scale(y)]);
  if (!points.length) return null;
  const [width, height] = wide ? [820, 300] : [400, 190], left = 52, bottom = 26, top = 8, right = marks ? 110 : 16;
  const bounds = place => {
    const all = points.map(point => point[place]), low = Math.min(...all), high = Math.max(...all), margin = (high - low || 1) * 0.04;
    return [low - (place || marks ? margin : 0), high + margin];
  };
  const [x0, x1] = bounds(0), [y0, y1] = bounds(1);
  const x = value => left + (width - left - right) * (scale(value) - x0) / (x1 - x0 || 1);
  const y = value => height - bottom - (height - bottom - top) * (scale(value) - y0) / (y1 - y0 || 1);
  const real = at => log ? 10 ** at : at;
  const short = value => Math.abs(value) >= 1e6 ? `${number(value / 1e6)}M` : Math.abs(value) >= 1e4 ? `${number(value / 1e3)}k` : number(value);
  const said = at => short(Number(real(at).toPrecision(6)));
  const axes = [
    ...ticks(y0, y1, log).map(at => [s("line", {class: "axis", x1: left, x2: width - right, y1: y(real(at)), y2: y(real(at))}),
      s("text", {class: "tick", x: left - 6, y: y(real(at)) + 4, "text-anchor": "end"}, said(at))]),
    ...ticks(x0, x1, log).map(at => [s("line", {class: "axis", x1: x(real(at)), x2: x(real(at)), y1: top, y2: height - bottom}),
      s("text", {class: "tick", x: x(real(at)), y: height - 8, "text-anchor": "middle"}, said(at))]),
  ].flat();
  const paths = drawn.flatMap((line, place) => {
    const look = {stroke: color(line.series ?? place)};
    const dots = marks || line.points.length === 1 ? line.points.map(([a, b]) =>
      s("circle", {cx: x(a), cy: y(b), r: 3.5, style: {fill: color(line.series ?? place)}}, s("title", {}, `${line.name} ${number(a)}, ${number(b)}`))) : [];
    const [across, up] = line.points.at(-1);
    const path = marks ? [s("text", {x: x(across) + 8, y: y(up) + 4}, line.name)] : [s("path", {class: `line ${line.dashed ? "dashed" : ""}`, style: look, d: line.points.map(([a, b], index) => `${index ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("")},
      s("title", {}, `${line.name} ${number(line.points.at(-1)[1])}`))];
    return [...path, ...dots];
  });
  const legend = !marks && drawn.some(line => line.name) ? h("div", {class: "legend"}, drawn.map((line, place) =>
    h("span", {}, h("i", {style: {"border-top": `3px ${line.dashed ? "dashed" : "solid"} ${color(line.series ?? place)}`}}), `${line.name} ${log ? "" : number(line.points.at(-1)[1], 4)}`))) : null;
  return h("figure", {}, h("h3", {}, title), s("svg", {class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title}, axes, paths), legend);
}
