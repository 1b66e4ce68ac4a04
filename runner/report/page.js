"use strict";
(() => {
  // Everything is set as text, never as markup: what a test wrote cannot become an element.
  const D = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const el = (tag, props, ...kids) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props || {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value);
    }
    node.append(...kids.filter((kid) => kid !== null && kid !== undefined && kid !== ""));
    return node;
  };
  const idOf = (c) => D.axes.map((axis, n) => (c.a[n] === null ? "" : `${axis}=${c.a[n]}`)).filter(Boolean).join(",");
  const face = (word) => {
    const [symbol, label, tone] = D.looks[word];
    return el("span", { class: tone }, el("span", { "aria-hidden": "true" }, symbol), ` ${label}`);
  };
  const bySlug = new Map(D.cells.map((c) => [c.s, c]));
  const planned = (c) => c.r === undefined && !["excluded", "not_runnable", "not_selected"].includes(c.w);
  const red = D.cells.filter((c) => planned(c) && c.w !== "passed");
  const reasons = (c) => (c.r || []).map((n) => D.pools.reasons[n]);
  const rerun = (c) => c.q || D.rerun[0] + idOf(c) + D.rerun[1];
  const secs = (s) => (s < 9.95 ? `${s.toFixed(1)} s` : s < 60 ? `${Math.round(s)} s`
    : `${Math.floor(Math.round(s) / 60)} min ${String(Math.round(s) % 60).padStart(2, "0")} s`);
  const pathOf = (c, name) => ["cells", c.s, ...name.split("/")].map(encodeURIComponent).join("/");

  // ---- copying a rerun line
  const copier = (text) => el("button", { type: "button", onclick: async (event) => {
    const button = event.currentTarget;
    try { await navigator.clipboard.writeText(text); button.textContent = "copied"; }
    catch { getSelection().selectAllChildren(button.parentNode.querySelector("code")); button.textContent = "selected"; }
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  } }, "copy");
  for (const place of document.querySelectorAll("dd.copy")) place.append(copier(place.querySelector("code").textContent));

  // ---- one cell
  const table = (head, rows) => el("table", { class: "plain", tabindex: "0" },
    el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((value) => el("td", {}, value ?? ""))))));
  const pairs = (rows) => el("dl", { class: "pairs" },
    ...rows.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name),
      value instanceof Node && value.tagName === "DD" ? value : el("dd", {}, value)]));
  const pre = (title, text, open) => {
    const box = el("details", { class: "log" }, el("summary", {}, title), el("pre", { tabindex: "0" }, text));
    box.open = open;
    return box;
  };

  const proof = (c, p) => {
    const [engine, version, platform, device, dtype, tp, method, same, diff, bound, left, memory, ranks, names, times, cut] = p;
    const asked = (axis) => { const n = D.axes.indexOf(axis); return n < 0 ? "" : c.a[n] || ""; };
    const [moe, weights, backend, scheme] = D.pools.expect[c.e] || [];
    const all = D.pools.ranks[ranks];
    const over = (n) => [...new Set(all.map((rank) => rank[n]).filter(Boolean))].join(", ");
    const rows = [
      ["engine", "", `${engine} ${version}`],
      ["platform", asked("platform"), platform + (device && device !== platform ? ` (${device})` : "")],
      ["dtype", asked("dtype"), dtype],
      ["tensor parallel", asked("tp"), tp === null ? "" : `${tp}, ${all.length} rank${all.length === 1 ? "" : "s"} reported`],
      ["quantization", asked("quantization"), method],
      ["MoE method", moe, over(2)], ["expert weights", weights, over(3)], ["kernel backend", backend, over(4)],
      ["linear scheme", scheme, over(5)],
      ["log-probability distance", bound === null ? "" : `at most ${bound}`, diff],
      ["tokens equal to reference", "", same === null ? "" : same ? "yes" : "no"],
      ["processes left behind", "", left === null ? "" : String(left)],
      ["memory left behind", "", memory === null ? "" : memory || "none"],
    ].filter(([, want, got]) => want || got).map(([what, want, got]) => [what, want || "", got || "not reported"]);
    const out = [el("h3", {}, "What ran"), table(["", "asked", "reported by the engine"], rows)];
    if (all.length) out.push(el("h3", {}, "Ranks"), table(["rank", "MoE method", "expert weights", "backend", "device"],
      all.map((r) => [`${r[0]} of ${r[1]}`, r[2], r[3], r[4], r[6] + (r[7] === null ? "" : ` (${r[7]} visible)`)])));
    if (times.length) {
      const total = times.reduce((a, b) => a + b, 0) || 1;
      let at = 0;
      const rows = times.map((t, n) => {
        const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
        const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
        for (const [k, v] of [["class", "phase"], ["viewBox", "0 0 100 1"], ["preserveAspectRatio", "none"], ["aria-hidden", "true"]]) svg.setAttribute(k, v);
        for (const [k, v] of [["x", 100 * at / total], ["width", Math.max(0.4, 100 * t / total)], ["height", 1]]) rect.setAttribute(k, v);
        svg.append(rect);
        at += t;
        return [D.pools.phases[names][n], secs(t), svg];
      });
      const phases = table(["phase", "time", ""], rows);
      phases.classList.add("phases");
      out.push(el("h3", {}, "Phases"), phases);
    }
    if (cut) out.push(el("p", { class: "note" }, `the cell ended during ${cut}`));
    return out;
  };

  const attempt = (c, a) => {
    const tally = a.t && ["tests", "passed", "failed", "errors", "skipped", "xfailed", "flaky"]
      .map((name, n) => (n === 0 || a.t[n] ? `${a.t[n]} ${name}` : "")).filter(Boolean).join(", ");
    const files = el("dd", {}, ...(a.f || []).map((n) => D.pools.files[n]).flatMap((name) =>
      [el("a", { href: pathOf(c, name) }, name.split("/").pop()), " "]));
    return [el("h3", {}, `Attempt ${a.n}: `, face(a.w)), pairs([
      ["Culprit", a.c], ["Cause", a.u], ["Remarks", (a.z || []).join("; ")], ["Exit", a.x && (a.x === "None" ? "not known" : `code ${a.x}`)],
      ["Ended by", a.y], ["Message", a.m], ["Tests", tally], ["Started", a.b], ["Took", a.d !== undefined && secs(a.d)],
      ["Devices", (a.v || []).join(", ")], ["Compile caches", a.h], ["Files", a.f && files]])];
  };

  const change = (c) => {
    const [what, before, why] = D.pools.changes[c.b];
    return `${what}${before ? `, before ${before}` : ""}${why && why !== c.u ? `: ${why}` : ""}`;
  };
  const dialog = $("cell");
  const show = (c) => {
    const at = red.indexOf(c);
    const go = (n) => () => { location.hash = `cell-${red[n].s}`; };
    const step = (text, n) => { const b = el("button", { type: "button", onclick: go(n) }, text); return b; };
    const attempts = c.t || [];
    const last = attempts[attempts.length - 1];
    const facts = D.axes.map((axis, n) => [axis, c.a[n]]);
    const why = planned(c) ? c.u : "";
    dialog.replaceChildren(...[
      el("div", { class: "nav" },
        el("span", {}, at >= 0 ? `${at + 1} of ${red.length} not passed` : ""),
        at > 0 ? step("previous", at - 1) : null, at >= 0 && at < red.length - 1 ? step("next", at + 1) : null,
        el("button", { type: "button", onclick: () => dialog.close() }, "close")),
      el("h2", { id: "cell-title" }, face(c.w)),
      el("p", { class: "id" }, idOf(c)),
      why ? el("p", { class: "cause" }, why) : null,
      reasons(c).length ? el("ul", {}, ...reasons(c).map((text) => el("li", {}, text))) : null,
      el("p", { class: "note" }, D.looks[c.w][3] + (c.n ? "; no engine proof: judged by tests and exit code alone" : "")),
      pairs([...facts, ["Baseline", c.b !== undefined && change(c)], ["Culprit", c.c], ["Took", c.d && secs(c.d)],
        ["Rerun", planned(c) && el("dd", { class: "copy" }, el("code", {}, rerun(c)), copier(rerun(c)))]]),
    ].filter(Boolean));
    const card = $(`red-${c.s}`);
    if (card) for (const box of card.querySelectorAll(".log")) {
      const copy = box.cloneNode(true);
      for (const line of copy.querySelectorAll(".ln")) line.removeAttribute("id");
      dialog.append(copy);
    }
    else {
      if (c.x) dialog.append(pre("From the log", c.x, true));
      for (const [group, name, text] of c.f || []) dialog.append(pre(group ? `${group}::${name}` : name, text || "no message kept", false));
      if (c.F > (c.f || []).length) dialog.append(el("p", { class: "note" }, `showing ${(c.f || []).length} of ${c.F} failing tests`));
    }
    if (last && last.p) dialog.append(...proof(c, last.p));
    for (const a of attempts) dialog.append(...attempt(c, a));
    dialog.scrollTop = 0;
    if (!dialog.open) dialog.showModal();
  };
  const follow = () => {
    const hash = decodeURIComponent(location.hash);
    const c = hash.startsWith("#cell-") && bySlug.get(hash.slice(6));
    if (c) show(c);
    if (hash.startsWith("#pivot=")) pivotBy(...hash.slice(7).split(","));
  };
  dialog.addEventListener("close", () => {
    const place = document.getElementById(location.hash.slice(1));
    history.replaceState(null, "", location.pathname + location.search);
    if (place) place.focus({ preventScroll: true });
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog && event.clientX < dialog.getBoundingClientRect().left) dialog.close(); });

  // ---- filter: every word must be found; "axis=value" must be that whole value
  const field = $("filter"), list = $("list"), hits = $("hits"), words = new Set();
  const MOST = 200;
  let hay = null, places = null, narrow = null;
  const match = (c, n, parts) => (!words.size || words.has(c.w)) && parts.every((part) => {
    const [axis, value] = part.split("=");
    const at = value === undefined ? -1 : lower.indexOf(axis);
    return at < 0 ? hay[n].includes(part) : (c.a[at] || "").toLowerCase() === value;
  });
  const lower = D.axes.map((axis) => axis.toLowerCase());
  const warm = () => {
    hay ||= D.cells.map((c) => [idOf(c), c.w, D.looks[c.w][1], c.c || "", c.u || "", c.b === undefined ? "" : D.pools.changes[c.b][0], ...reasons(c), ...(c.f || []).map((f) => f[1])].join(" ").toLowerCase());
    places ||= D.cells.map((c) => $(`cell-${c.s}`));
  };
  const apply = () => {
    warm();
    const parts = field.value.toLowerCase().split(/[\s,]+/).filter((part) => part && part !== "and");
    const idle = !parts.length && !words.size;
    const found = [];
    D.cells.forEach((c, n) => {
      const hit = idle || match(c, n, parts);
      if (hit) found.push(c);
      if (places[n] && places[n].classList.contains("off") === hit) places[n].classList.toggle("off", !hit);
    });
    list.hidden = idle;
    hits.textContent = idle ? "" : `${found.length.toLocaleString("en")} of ${D.cells.length.toLocaleString("en")} cells`
      + (found.length > MOST ? `, showing ${MOST}` : "");
    list.replaceChildren(...(idle || !found.length ? [] : [table(["word", "cell", "why"], found.slice(0, MOST).map((c) =>
      [face(c.w), el("a", { href: `#cell-${c.s}`, class: "id" }, idOf(c)), el("span", {}, planned(c) ? c.u || "" : reasons(c).join("; "))]))]));
    for (const cell of list.querySelectorAll("td:last-child, td:nth-child(2)")) cell.className = "t";
    narrow = found;
    drawPivot();
  };

  // ---- pivot: two axes of one's choice; a slot says the words of all its cells, red ones first
  const rows = $("rows"), columns = $("columns"), pivot = $("pivot"), blocks = $("blocks");
  const TONES = ["bad", "doubt", "host", "good", "void"];
  const severity = new Map(Object.keys(D.looks).map((word, n) => [word, 100 * TONES.indexOf(D.looks[word][2]) + n]));
  const valuesOf = (at) => {
    const seen = new Set(D.cells.map((c) => c.a[at] ?? ""));
    return [...D.order[at].filter((value) => seen.delete(value)), ...[...seen].sort()];
  };
  const slot = (counts, parts) => {
    const said = [...counts].sort((a, b) => severity.get(a[0]) - severity.get(b[0]));
    if (!said.length) return "";
    return el("button", { type: "button", class: `on ${D.looks[said[0][0]][2]}`,
      onclick: () => { field.value = parts.join(" "); apply(); list.scrollIntoView({ block: "nearest" }); } },
    ...said.map(([word, n]) => el("span", { class: D.looks[word][2] }, `${D.looks[word][0]} ${n.toLocaleString("en")} ${D.looks[word][1]}`)));
  };
  const drawPivot = () => {
    const r = D.axes.indexOf(rows.value), k = D.axes.indexOf(columns.value);
    const on = r >= 0 && k >= 0 && r !== k;
    pivot.hidden = !on;
    blocks.hidden = on;
    if (!on) return;
    const sums = new Map();
    const add = (key, word) => {
      const counts = sums.get(key) || sums.set(key, new Map()).get(key);
      counts.set(word, (counts.get(word) || 0) + 1);
    };
    for (const c of narrow || D.cells) {
      const [a, b] = [c.a[r] ?? "", c.a[k] ?? ""];
      for (const key of [JSON.stringify([a, b]), JSON.stringify([a, null]), JSON.stringify([null, b]), "all"]) add(key, c.w);
    }
    const at = (a, b) => sums.get(a === null && b === null ? "all" : JSON.stringify([a, b])) || [];
    const part = (axis, value) => (value === null ? [] : [`${D.axes[axis]}=${value}`]);
    const line = (a) => el("tr", {}, el("th", { scope: "row", ...(a === null ? { class: "all" } : {}) }, a === null ? "all" : a || "(none)"),
      ...[...valuesOf(k), null].map((b) => el("td", {}, slot(at(a, b), [...part(r, a), ...part(k, b)]))));
    pivot.replaceChildren(el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${rows.value} by ${columns.value}` },
      el("table", { class: "pivot" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, `${rows.value} \\ ${columns.value}`),
          ...valuesOf(k).map((b) => el("th", { scope: "col" }, b || "(none)")), el("th", { scope: "col", class: "all" }, "all"))),
        el("tbody", {}, ...[...valuesOf(r), null].map(line)))));
  };
  const pivotBy = (a, b) => { rows.value = a; columns.value = b; drawPivot(); };
  for (const box of [rows, columns]) {
    box.append(el("option", { value: "" }, "all axes"), ...D.axes.map((axis) => el("option", { value: axis }, axis)));
    box.addEventListener("change", () => {
      if (box.value && !(box === rows ? columns : rows).value) {
        (box === rows ? columns : rows).value = D.axes.find((axis) => axis !== box.value && axis !== "platform") || "";
      }
      if (!box.value) rows.value = columns.value = "";
      drawPivot();
      history.replaceState(null, "", rows.value && columns.value ? `#pivot=${rows.value},${columns.value}` : location.pathname);
    });
  }
  let waiting = 0;
  field.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(apply, 30); });
  for (const chip of document.querySelectorAll(".chip")) chip.addEventListener("click", () => {
    const word = chip.dataset.word;
    const on = !words.delete(word) && !!words.add(word);
    chip.setAttribute("aria-pressed", String(on));
    apply();
  });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); field.select(); }
    if (event.key === "Escape" && document.activeElement === field) { field.value = ""; apply(); field.blur(); }
  });
  for (const tools of document.querySelectorAll(".tools")) tools.hidden = false;
  addEventListener("hashchange", follow);
  follow();
  (window.requestIdleCallback || setTimeout)(warm);
})();
