"use strict";
// Shows exact values where the pointer is. The page is complete without it.
(() => {
  const all = JSON.parse(document.getElementById("values").textContent);
  const svgName = "http://www.w3.org/2000/svg";

  const threeDigits = (value) => {
    const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return String(Number(value.toFixed(digits)));
  };
  const withUnit = (value, units) => {
    const unit = units.findLast(([scale]) => value >= scale * 0.9995) ?? units[0];
    return threeDigits(value / unit[0]) + " " + unit[1];
  };
  const latency = (ns) =>
    ns === null ? "none" : withUnit(ns, [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]]);
  const rate = (value) => withUnit(value, [[1, "/s"], [1e3, "k/s"], [1e6, "M/s"]]);
  const percent = (nines) => {
    const digits = Math.max(1, Math.floor(nines));
    return Number((100 * (1 - 10 ** -nines)).toFixed(digits)) + " %";
  };

  const place = (value, [from, to], [begin, end]) =>
    begin + ((value - from) / (to - from)) * (end - begin);
  const across = (frame, x) => place(x, frame.x, frame.across);
  const up = (frame, y) => place(y, frame.y, [frame.down[1], frame.down[0]]);
  const nearest = (points, x) =>
    points.reduce((best, it) => (Math.abs(it[0] - x) < Math.abs(best[0] - x) ? it : best));

  // Each gives what is at x: a heading, and rows of name, value, class and place.
  const readers = {
    distribution(chart, x) {
      const at = nearest(chart.lines[0].points, x)[0];
      const rows = chart.lines.map((line, index) => {
        const [nines, ns] = nearest(line.points, at);
        const key = chart.keys[index] ?? "first";
        const y = up(chart.frame, Math.log10(Math.max(ns, 1)));
        return [line.name, latency(ns), key, across(chart.frame, nines), y];
      });
      return ["up to " + percent(at), across(chart.frame, at), rows];
    },
    over_time(chart, x) {
      const [seconds, perSecond, p50, p99] = nearest(chart.points, x);
      const [upper, lower] = chart.frames;
      const left = across(upper, seconds);
      const y = (ns) => (ns === null ? null : up(lower, Math.log10(Math.max(ns, 1))));
      return ["at " + seconds + " s", left, [
        ["rate", rate(perSecond), "first", left, up(upper, perSecond)],
        ["p50", latency(p50), "third", left, y(p50)],
        ["p99", latency(p99), "second", left, y(p99)],
      ]];
    },
  };

  const element = (name, attributes) => {
    const made = document.createElementNS(svgName, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  const attach = (figure, chart) => {
    const plot = figure.querySelector(".plot");
    const svg = plot.querySelector("svg");
    const frames = chart.frames ?? [chart.frame];
    const [top, bottom] = [frames[0].down[0], frames[frames.length - 1].down[1]];
    chart.keys = [...figure.querySelectorAll(".key")].map((key) => key.classList[1]);
    const layer = element("g", {});
    svg.append(layer);
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    plot.append(tip);

    const hide = () => {
      tip.hidden = true;
      layer.replaceChildren();
    };
    const show = (event) => {
      const box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      const [left, right] = frames[0].across;
      const pointer = Math.min(Math.max((event.clientX - box.left) * scale, left), right);
      const x = place(pointer, frames[0].across, frames[0].x);
      const [heading, at, rows] = readers[chart.kind](chart, x);
      layer.replaceChildren(
        element("line", { class: "cross", x1: at, x2: at, y1: top, y2: bottom }),
        ...rows.filter((row) => row[4] !== null).map(([, , key, cx, cy]) =>
          element("circle", { class: "dot " + key, cx, cy, r: 9 })),
      );
      const title = document.createElement("b");
      title.textContent = heading;
      tip.replaceChildren(title, ...rows.map(([name, value]) => {
        const line = document.createElement("div");
        line.textContent = name + " " + value;
        return line;
      }));
      tip.hidden = false;
      const beside = at / scale + 14;
      const fits = beside + tip.offsetWidth <= box.width;
      tip.style.left = (fits ? beside : Math.max(0, at / scale - 14 - tip.offsetWidth)) + "px";
      tip.style.top = top / scale + 6 + "px";
    };
    plot.addEventListener("pointermove", show);
    plot.addEventListener("pointerdown", show);
    plot.addEventListener("pointerleave", hide);
  };

  for (const [id, chart] of Object.entries(all)) {
    const figure = document.getElementById(id);
    if (figure) attach(figure, chart);
  }
})();
