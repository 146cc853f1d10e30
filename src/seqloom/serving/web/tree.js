// A beam search as a tree: every sequence that was in the beam, and the ways to the results.
import {h, number, s} from "./dom.js";

const WIDE = 92, HIGH = 26;

export function tree({tree: nodes, outputs}) {
  const children = nodes.map(() => []);
  nodes.forEach((node, place) => node.parent !== null && children[node.parent].push(place));
  const best = new Set([0, ...outputs[0].nodes]), kept = new Set([0, ...outputs.flatMap(each => each.nodes)]);
  const places = [];
  let row = 0;
  // Each leaf has a row of its own; a node stands in the middle of its children. The best first, so that it is on top.
  const put = (place, depth) => {
    const below = children[place].sort((one, other) => best.has(other) - best.has(one) || kept.has(other) - kept.has(one));
    below.forEach(child => put(child, depth + 1));
    const y = below.length ? (places[below[0]].y + places[below.at(-1)].y) / 2 : HIGH * (row++ + 0.7);
    places[place] = {x: 12 + WIDE * depth, y};
  };
  put(0, 0);
  const width = Math.max(...places.map(place => place.x)) + WIDE, height = HIGH * (row + 0.6);
  const lines = nodes.flatMap((node, place) => {
    if (node.parent === null) return [];
    const from = places[node.parent], to = places[place], middle = (from.x + to.x) / 2 + 20;
    const start = from.x + (node.parent ? 58 : 0);
    return s("path", {class: best.has(place) ? "way" : kept.has(place) ? "" : "off", d: `M${start} ${from.y}C${middle} ${from.y} ${middle} ${to.y} ${to.x} ${to.y}`});
  });
  const words = nodes.map((node, place) => {
    const {x, y} = places[place];
    const said = node.token.length > 9 ? `${node.token.slice(0, 8)}…` : node.token;
    return s("text", {x: x + 3, y: y + 4, class: kept.has(place) ? "" : "off"}, s("title", {}, `${node.token} · log p ${number(node.log_prob)}`), said);
  });
  const picture = s("svg", {class: "tree", role: "img", "aria-label": outputs[0].text, width, height, viewBox: `0 0 ${width} ${height}`}, lines, words);
  return h("div", {class: "scroll", tabindex: "0"}, picture);
}
