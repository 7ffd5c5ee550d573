"use strict";
// Exact values where the pointer is, tables that sort, links that unfold, the page as Markdown. The page is
// complete without it.
(() => {
  const svgName = "http://www.w3.org/2000/svg";

  const threeDigits = (value) => {
    const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return String(Number(value.toFixed(digits)));
  };
  const withUnit = (value, units) => {
    const unit = units.findLast(([scale]) => value >= scale * 0.9995) ?? units[0];
    return threeDigits(value / unit[0]) + " " + unit[1];
  };
  const binary = [[1, "B"], [2 ** 10, "KiB"], [2 ** 20, "MiB"], [2 ** 30, "GiB"], [2 ** 40, "TiB"]];
  const units = {
    latency: (ns) => withUnit(ns, [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]]),
    rate: (value) => withUnit(value, [[1, "/s"], [1e3, "k/s"], [1e6, "M/s"]]),
    bytes: (value) => withUnit(value, binary),
    bandwidth: (value) => withUnit(value, binary.map(([scale, name]) => [scale, name + "/s"])),
    seconds: (value) => "at " + value + " s",
    time: (value) => new Date(value * 1000).toISOString().slice(0, 19).replace("T", " ") + " UTC",
    number: (value) => String(Number(value.toPrecision(4))),
    nines: (nines) => {
      const digits = Math.max(1, Math.floor(nines));
      return "up to " + Number((100 * (1 - 10 ** -nines)).toFixed(digits)) + " %";
    },
  };
  const words = (axis, value) => axis.steps?.[value] ?? units[axis.unit](value);

  const place = (value, [from, to], [begin, end]) =>
    begin + ((value - from) / (to - from)) * (end - begin);
  const coordinate = (axis, value) => (axis.log ? Math.log10(value) : value);
  const across = (panel, x) => place(coordinate(panel.x, x), panel.frame.x, panel.frame.across);
  const up = (panel, y) => {
    const [top, bottom] = panel.frame.down;
    return place(coordinate(panel.y, y), panel.frame.y, [bottom, top]);
  };

  const element = (name, attributes) => {
    const made = document.createElementNS(svgName, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  const attach = (figure, panels) => {
    const plot = figure.querySelector(".plot");
    const svg = plot.querySelector("svg");
    const [top, bottom] = [panels[0].frame.down[0], panels[panels.length - 1].frame.down[1]];
    const points = panels.flatMap((panel) => panel.lines.flatMap((line) => line.points));
    const stops = [...new Set(points.map(([x]) => x))].sort((a, b) => a - b);
    const layer = element("g", {});
    svg.append(layer);
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    tip.setAttribute("role", "status");
    plot.append(tip);
    let stop = 0;

    const hide = () => {
      tip.hidden = true;
      layer.replaceChildren();
    };
    const show = () => {
      const box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      const at = across(panels[0], stops[stop]);
      const rows = panels.flatMap((panel) => panel.lines.flatMap((line) => {
        const point = line.points.find(([x]) => x === stops[stop]);
        return point ? [[line, words(panel.y, point[1]), up(panel, point[1])]] : [];
      }));
      layer.replaceChildren(
        element("line", { class: "cross", x1: at, x2: at, y1: top, y2: bottom }),
        ...rows.map(([line, , cy]) => element("circle", { class: "dot " + line.key, cx: at, cy, r: 9 })),
      );
      const title = document.createElement("b");
      title.textContent = words(panels[0].x, stops[stop]);
      tip.replaceChildren(title, ...rows.map(([line, value]) => {
        const row = document.createElement("div");
        row.textContent = (line.name + " " + value).trim();
        return row;
      }));
      tip.hidden = false;
      const beside = at / scale + 14;
      const fits = beside + tip.offsetWidth <= box.width;
      tip.style.left = (fits ? beside : Math.max(0, at / scale - 14 - tip.offsetWidth)) + "px";
      tip.style.top = top / scale + 6 + "px";
    };
    const follow = (event) => {
      const box = svg.getBoundingClientRect();
      const pointer = (event.clientX - box.left) * (svg.viewBox.baseVal.width / box.width);
      const distance = (x) => Math.abs(across(panels[0], x) - pointer);
      stop = stops.reduce((best, x, index) => (distance(x) < distance(stops[best]) ? index : best), 0);
      show();
    };
    const step = (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, Home: -stops.length, End: stops.length }[event.key];
      if (event.key === "Escape") hide();
      if (!by) return;
      event.preventDefault();
      stop = Math.min(Math.max(stop + by, 0), stops.length - 1);
      show();
    };
    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    plot.setAttribute("aria-label", figure.querySelector("figcaption").textContent + ": arrow keys show values");
    plot.addEventListener("pointermove", follow);
    plot.addEventListener("pointerdown", follow);
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("keydown", step);
    plot.addEventListener("focus", show);
    plot.addEventListener("blur", hide);
  };

  // A row goes with the parts below it.
  const sortable = (table) => {
    const body = table.tBodies[0];
    const groups = [];
    for (const row of body.rows) {
      if (row.classList.contains("part") && groups.length) groups.at(-1).push(row);
      else groups.push([row]);
    }
    if (groups.length < 3) return;
    const key = (group, column) => {
      const cell = group[0].cells[column];
      return cell?.dataset.v === undefined ? cell?.textContent ?? "" : Number(cell.dataset.v);
    };
    const order = (a, b) =>
      typeof a === "number" && typeof b === "number" ? a - b
      : typeof a === "number" ? -1
      : typeof b === "number" ? 1
      : a.localeCompare(b);
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (!head.textContent) return;
      const button = document.createElement("button");
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const way = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", way);
        const sign = way === "ascending" ? 1 : -1;
        groups.sort((a, b) => sign * order(key(a, column), key(b, column)));
        body.append(...groups.flat());
      });
    });
  };

  const unfold = () => {
    const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let it = named; it; it = it.parentElement) if (it.tagName === "DETAILS") it.open = true;
    named?.querySelector("details")?.setAttribute("open", "");
    named?.scrollIntoView();
  };

  const values = document.getElementById("values");
  for (const [id, panels] of Object.entries(values ? JSON.parse(values.textContent) : {})) {
    attach(document.getElementById(id), panels);
  }
  const tables = document.querySelectorAll("table.figures");
  tables.forEach(sortable);
  // A small screen shows the answer first, and what belongs to it where it is asked for.
  if (matchMedia("(min-width: 900px)").matches) {
    document.querySelectorAll("details[data-wide]").forEach((it) => { it.open = true; });
  } else {
    for (const table of tables) {
      if (!table.querySelector(".part, .fine")) continue;
      table.classList.add("brief");
      const button = document.createElement("button");
      button.textContent = "show all";
      button.addEventListener("click", () => { table.classList.remove("brief"); button.remove(); });
      table.before(button);
    }
  }
  const copy = document.getElementById("copy");
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    const text = JSON.parse(document.getElementById("markdown").textContent);
    // A page that came over plain HTTP has no clipboard of its own.
    const select = () => {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const isCopied = document.execCommand("copy");
      area.remove();
      return isCopied;
    };
    const isCopied = await (navigator.clipboard?.writeText(text).then(() => true, select) ?? select());
    copy.textContent = isCopied ? "Copied" : "Not copied";
  });
  addEventListener("hashchange", unfold);
  unfold();
})();
