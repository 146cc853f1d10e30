// A click on a heading sorts the table by that column; another click turns the order around.
for (const table of document.querySelectorAll("table.numbers")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => heading.querySelector("button").addEventListener("click", () => {
    const order = heading.ariaSort === "ascending" ? "descending" : "ascending";
    const sign = order === "ascending" ? 1 : -1;
    const key = row => {
      const cell = row.cells[column];
      if (cell.dataset.value === undefined) return cell.textContent;
      if (cell.dataset.value === "inf") return Infinity;
      return cell.dataset.value === "nan" ? NaN : Number(cell.dataset.value);
    };
    const compare = (one, other) => {
      if (typeof one === "string") return sign * one.localeCompare(other);
      if (Number.isNaN(one) || Number.isNaN(other)) return Number.isNaN(one) - Number.isNaN(other);
      return one === other ? 0 : sign * (one < other ? -1 : 1);
    };
    body.append(...[...body.rows].sort((one, other) => compare(key(one), key(other))));
    headings.forEach(each => each.removeAttribute("aria-sort"));
    heading.ariaSort = order;
  }));
}
