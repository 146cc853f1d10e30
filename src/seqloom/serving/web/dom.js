// Elements in one expression: h("p", {class: "note", onclick: f, style: {"--w": 0.5}}, "text", child, ...).
const make = create => (name, given = {}, ...children) => {
  const element = create(name);
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [name, set] of Object.entries(value)) element.style.setProperty(name, set);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter(child => child !== null && child !== undefined && child !== false));
  return element;
};

export const h = make(name => document.createElement(name));
export const s = make(name => document.createElementNS("http://www.w3.org/2000/svg", name));

// A number with so many digits that say something.
export const number = (value, digits = 3) => value === null || value === undefined ? "–"
  : Number.isInteger(value) ? value.toLocaleString() : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString()
  : Number(value.toPrecision(digits)).toString();

export const percent = logProb => logProb === null ? "0 %" : `${number(100 * Math.exp(logProb), 2)} %`;

export const seconds = value => value === null || value === undefined ? "–" : value < 90 ? `${Math.round(value)} s`
  : value < 5400 ? `${Math.round(value / 60)} min` : `${number(value / 3600, 2)} h`;

export const source = base64 => `data:image/png;base64,${base64}`;
