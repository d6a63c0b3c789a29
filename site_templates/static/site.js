// What pages do beyond being read: theme, freshness, sorting, filters, search, charts, snippets. Without it all is there.
"use strict";
(() => {
  const THEME = "theme";
  const stored = (() => { try { return localStorage.getItem(THEME); } catch { return null; } })();
  if (stored === "light" || stored === "dark") document.documentElement.dataset.theme = stored;

  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };

  const themeButton = () => {
    const dark = () => {
      const chosen = document.documentElement.dataset.theme;
      return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    };
    const button = make("button", { type: "button", className: "theme" });
    const say = () => { button.textContent = dark() ? "Light" : "Dark"; button.title = `Switch to the ${dark() ? "light" : "dark"} theme`; };
    button.addEventListener("click", () => {
      const next = dark() ? "light" : "dark";
      document.documentElement.dataset.theme = next;
      try { localStorage.setItem(THEME, next); } catch { /* it lasts for this page */ }
      say();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", say);
    say();
    document.querySelector(".bar").append(button);
  };

  // Freshness: the status document says when the run was published and when the next is due.
  const ago = (seconds) => {
    const steps = [[86400 * 2, 86400, "day"], [3600 * 2, 3600, "hour"], [120, 60, "minute"]];
    for (const [least, unit, name] of steps) if (seconds >= least) return `${Math.floor(seconds / unit)} ${name}s`;
    return seconds < 60 ? "less than a minute" : "a minute";
  };
  const KEPT = 300;  // a run may keep pages of some ledgers earlier; loading those again would change nothing
  const DAY = 86400 * 1000;  // without a promise of the next run, older numbers are stale
  const freshness = async (root) => {
    const line = document.getElementById("fresh");
    if (!line) return;  // the page that says there is no such page
    const closed = Date.parse(line.querySelector("time").dateTime);
    let due = null;
    let newest = null;
    if (location.protocol.startsWith("http")) {
      try {
        const status = await (await fetch(`${root}v1/system/status.json`, { cache: "no-cache" })).json();
        due = status.next_expected_at === null ? null : Date.parse(status.next_expected_at);
        newest = status.observed_ledger;
      } catch { /* the page has the absolute times */ }
    }
    let banner = null;
    const then = `“Now” on this page is ${line.querySelector("time").textContent}, ledger ${line.querySelector("b").textContent}.`;
    const show = () => {
      const now = Date.now();
      line.querySelector(".age").textContent = now >= closed ? ` · ${ago((now - closed) / 1000)} ago` : "";
      const late = due === null ? now - closed > DAY : now > due;
      line.dataset.fresh = late ? "no" : due === null ? "unknown" : "yes";
      const newer = newest !== null && newest > Number(document.body.dataset.ledger) + KEPT;
      if ((late || newer) && banner === null) {
        banner = make("div", { className: "stale", id: "stale" }, make("p"));
        banner.setAttribute("role", "status");
        document.body.append(banner);
      }
      if (late) {
        const why = due === null
          ? `they are ${ago((now - closed) / 1000)} old`
          : `the next run was due ${ago((now - due) / 1000)} ago and has not come`;
        banner.firstChild.textContent = `These numbers are stale: ${why}. ${then}`;
      } else if (newer) {
        banner.firstChild.replaceChildren("A newer run is there. ", make("a", { href: "", textContent: "Load it" }));
      }
    };
    show();
    setInterval(show, 30000);
  };

  // Tables: buttons in the heads sort by exact values, a field filters by the text of a row or its links.
  const integer = /^-?\d+$/;
  const keyOf = (row, column, kind) => {
    const cell = row.cells[column];
    if (kind === "text") return cell.textContent.trim().toLowerCase();
    const value = cell.dataset.value ?? "";
    return integer.test(value) ? BigInt(value) : null;
  };
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const sortable = (table) => {
    const body = table.tBodies[0];
    const name = `sort-${table.dataset.filter}`;
    const kept = (new URLSearchParams(location.hash.slice(1)).get(name) ?? "").split(".");
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const kind = head.dataset.sort;
      if (!kind) return;
      const button = make("button", { type: "button", className: "sort" }, ...head.childNodes);
      head.append(button);
      const sort = (order) => {
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const keyed = [...body.rows].map((row) => [keyOf(row, column, kind), row]);
        keyed.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : sign * compare(a, b)));
        body.append(...keyed.map(([, row]) => row));
      };
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const first = kind === "number" ? "descending" : "ascending";
        const order = before === null ? first : before === "ascending" ? "descending" : "ascending";
        sort(order);
        const fragment = new URLSearchParams(location.hash.slice(1));
        fragment.set(name, `${column}.${order}`);
        history.replaceState(null, "", `#${fragment}`);
      });
      if (kept[0] === String(column) && ["ascending", "descending"].includes(kept[1])) sort(kept[1]);
    });
  };
  const filterable = (table) => {
    const rows = [...table.tBodies[0].rows];
    if (rows.length < 8) return;
    const what = table.dataset.filter;
    const textOf = (row) =>
      [row.textContent, ...[...row.querySelectorAll("a, [title]")].map((part) => `${part.title} ${part.getAttribute("href") ?? ""}`)]
        .join(" ").toLowerCase();
    let texts = null;
    const field = make("input", { type: "search", placeholder: `Filter these ${what}` });
    field.setAttribute("aria-label", `Filter ${what} by name or address`);
    const tally = make("span");
    tally.setAttribute("role", "status");
    const apply = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      if (words.length) texts ??= rows.map(textOf);
      let shown = 0;
      rows.forEach((row, index) => {
        row.hidden = !words.every((word) => texts[index].includes(word));
        shown += row.hidden ? 0 : 1;
      });
      tally.textContent = !words.length ? "" : shown ? `${shown} of ${rows.length}` : `None of these ${what} matches.`;
      table.hidden = !shown;
    };
    // In the fragment, which no server and no cache sees: a filtered table can be linked to.
    field.addEventListener("input", () => {
      apply();
      const filters = new URLSearchParams(location.hash.slice(1));
      if (field.value) filters.set(what, field.value); else filters.delete(what);
      history.replaceState(null, "", `#${filters}`);
    });
    field.value = new URLSearchParams(location.hash.slice(1)).get(what) ?? "";
    apply();
    table.closest(".scroll").before(make("div", { className: "tools" }, field, tally));
  };
  const hints = () => {
    for (const box of document.querySelectorAll(".scroll")) box.classList.toggle("wide", box.scrollWidth > box.clientWidth + 1);
  };

  // One search over markets, tokens and pools, in the API's own lists, and over its operations, in the contents of the
  // reference. All of them are fetched when somebody begins to type.
  const MOST_FOUND = 12;
  const short = (id) => `${id.slice(0, 4)}…${id.slice(-4)}`;
  const search = (root) => {
    if (!location.protocol.startsWith("http")) return;
    const native = document.body.dataset.xlm;
    const named = (symbol, address) => (symbol === "native" && (!native || address === native) ? "XLM" : symbol);
    const get = async (key) => (await fetch(`${root}v1/${key}.json`)).json();
    const field = make("input", { type: "search", placeholder: "Search" });
    field.setAttribute("aria-label", "Search markets, tokens, pools and the API");
    const found = make("ul");
    const said = make("p");
    said.setAttribute("role", "status");
    const box = make("div", { className: "found", hidden: true }, said, found);
    let entries = null;
    let unasked = false;  // nobody typed anything: without a hit there is nothing to say
    const add = (kind, name, label, of, key, listed, ...more) => entries.push({
      kind, label, of, listed, name: name.slice(0, 36), href: root + key, exact: name.toLowerCase(),
      text: [kind, name, label, of, ...more].join(" ").toLowerCase() });
    const load = async () => {
      const [markets, tokens, protocols, reference] = await Promise.all([
        get("markets"), get("tokens"), get("protocols"), fetch(`${root}api.html`).then((answer) => answer.text())]);
      const titles = new Map(protocols.data.map(({ protocol, title }) => [protocol, title.split(" (")[0]]));
      const beside = (name, protocol) => {
        const title = titles.get(protocol) ?? protocol;
        return name.toLowerCase().includes(title.toLowerCase()) ? "" : title;
      };
      const symbols = new Map();
      for (const item of markets.data) {
        const title = beside(item.name, item.protocol);
        add("market", item.name, "", title && `of ${title}`, `markets/${item.market}.html`, item.listed, item.protocol, item.market);
      }
      for (const { symbol, address, pool_count, issuer, identity } of tokens.data) {
        const name = named(symbol, address);
        symbols.set(name, (symbols.get(name) ?? 0) + 1);
        add("token", name, "", short(address), `tokens/${address}.html`, pool_count > 0, address,
          issuer ?? "", identity?.who ?? "", identity?.home_domain ?? "");
      }
      for (let key = "pools/index"; key; ) {
        const page = await get(key);
        for (const item of page.data) {
          const name = named(item.symbol, item.token_address);
          const label = [item.pool_label ?? "", symbols.get(name) > 1 ? short(item.token_address) : ""].join(" ");
          add("pool", name, label, `in ${item.market_name}`, `pools/${item.market}/${item.pool}.html`,
            item.listed, item.protocol, item.pool);
        }
        key = page.next_cursor && `pool-pages/${page.next_cursor}`;
        show();
      }
      const contents = new DOMParser().parseFromString(reference, "text/html");
      for (const link of contents.querySelectorAll(".contents li a")) {
        add("operation", link.textContent, "", link.parentNode.querySelector(".quiet").textContent, link.getAttribute("href"), true);
      }
      show();
    };
    const show = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      box.hidden = !words.length;
      if (box.hidden) return;
      if (!entries) {
        entries = [];
        load().catch(() => { entries = null; said.textContent = "The lists could not be loaded."; });
      }
      const exact = (item) => words.includes(item.exact);  // a symbol or name that was typed in full
      const hits = entries.filter((item) => words.every((word) => item.text.includes(word)));
      box.hidden = unasked && !hits.length;
      hits.sort((one, other) => other.listed - one.listed || exact(other) - exact(one));
      said.textContent = hits.length > MOST_FOUND ? `${MOST_FOUND} of ${hits.length} found` : `${hits.length} found`;
      found.replaceChildren(...hits.slice(0, MOST_FOUND).map((item) => make("li", {},
        make("a", { href: item.href }, make("bdi", { textContent: item.name })),
        make("span", { className: "quiet" }, ` ${item.label} ${item.kind} `,
          make(item.kind === "token" ? "code" : "bdi", { textContent: item.of.slice(0, 60) }), item.listed ? "" : " (not listed)"))));
    };
    field.addEventListener("input", () => { unasked = false; show(); });
    const find = make("div", { className: "find" }, field, box);
    find.addEventListener("keydown", (event) => {
      const stops = [field, ...found.querySelectorAll("a")];
      const at = stops.indexOf(document.activeElement);
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        event.preventDefault();
        stops[at + step]?.focus();
      } else if (event.key === "Enter" && !at) {
        stops[1]?.click();
      } else if (event.key === "Escape") {
        box.hidden = true;
      }
    });
    document.querySelector(".bar nav").after(find);
    // There is no page at this address: what its last part names is looked for, such as usdc of tokens/usdc.html.
    if (!document.getElementById("fresh")) {
      try { field.value = decodeURIComponent(location.pathname).split("/").pop().replace(/[.]html$/, "").slice(0, 60); } catch { /* no text */ }
      document.querySelector("main").append(box);
      unasked = true;
      show();
    }
  };

  // Charts: the row of the table below at which somebody points, and only the last week or month of all charts.
  const LEFT = 92, RIGHT = 704, TOP = 24, BOTTOM = 296, WIDTH = 720;  // of exporter/render/site/charts.py
  const DAYS = { "7 d": 7, "30 d": 30, all: Infinity };
  const svg = (name, attributes, text = "") => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };
  const COMPACT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 2 });
  const scale = (greatest) => {  // as the page's own axes: four steps at most, of 1, 2 or 5 times a power of ten
    for (let power = 1; ; power *= 10) {
      const step = [1, 2, 5].map((digit) => digit * power).find((step) => step * 4 >= greatest);
      if (step) return [Math.max(Math.ceil(greatest / step), 1) * step, step];
    }
  };
  const chart = (plot, body) => {
    const rows = [...body.rows].reverse();
    const xs = body.dataset.x.split(" ").map(Number);
    const when = (row) => row.cells[0].textContent;
    const marks = [...plot.parentNode.querySelectorAll("li[data-column] b")];
    const now = marks.map((mark) => mark.textContent);
    const cross = svg("path", { class: "cross" });
    const label = svg("text", { class: "when", y: TOP - 6 });
    const drawn = plot.innerHTML;
    plot.append(cross, label);
    let at = (x) => x;
    const point = (event) => {
      const box = plot.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * WIDTH;
      const nearest = xs.reduce((best, each, index) => (Math.abs(at(each) - x) < Math.abs(at(xs[best]) - x) ? index : best), 0);
      const place = at(xs[nearest]);
      cross.setAttribute("d", `M${place} ${TOP}V${BOTTOM}`);
      label.textContent = when(rows[nearest]);
      label.setAttribute("x", Math.min(Math.max(place, LEFT + 110), RIGHT - 95));
      marks.forEach((mark) => { mark.textContent = rows[nearest].cells[Number(mark.parentNode.dataset.column) + 1].textContent; });
      plot.parentNode.classList.add("pointed");
    };
    const leave = () => {
      plot.parentNode.classList.remove("pointed");
      marks.forEach((mark, index) => { mark.textContent = now[index]; });
    };
    for (const name of ["pointermove", "pointerdown"]) plot.addEventListener(name, point);
    // A finger leaves the chart when it is lifted: what it pointed at stays until somebody taps elsewhere.
    plot.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") leave(); });
    document.addEventListener("pointerdown", (event) => { if (!plot.contains(event.target)) leave(); });
    const clipped = plot.parentNode.querySelector(".legend li:not([class])");
    const top = Number(plot.dataset.top);
    const exact = (row, mark) => {
      const cell = row.cells[Number(mark.parentNode.dataset.column) + 1].textContent;
      const text = cell.replace(/[^\d.]/g, "");
      return text && (cell.startsWith("<") ? 0 : Math.round(Number(text) * 100));
    };
    // The lines of the last days, drawn again from the table on an axis of their own; whole, as the page had them.
    const draw = (from) => {
      const first = xs.findIndex((x) => x >= from);
      const shown = marks.map((mark) => rows.map((row, index) => (index < first ? "" : exact(row, mark))));
      const greatest = Math.max(0, ...shown.flat());
      if (clipped) clipped.hidden = greatest <= top;
      const [end, step] = scale(Math.min(greatest, top));
      const y = (value) => BOTTOM - Math.round(Math.min(value, end) * (BOTTOM - TOP) / end);
      const find = (kind) => plot.querySelector(kind);
      marks.forEach((mark, number) => {
        const own = mark.parentNode.className;
        const runs = [[]];
        shown[number].forEach((value, index) => {
          if (value === "") runs.unshift([]); else runs[0].push(`${at(xs[index])} ${y(value)}`);
        });
        const known = runs.filter((run) => run.length);
        find(`.line.${own}`)?.setAttribute("d", known.map((run) => `M${run.join(" ")}h0`).join(""));
        find(`.area.${own}`)?.setAttribute("d", known.map((run) =>
          `M${run.join(" ")} ${run.at(-1).split(" ")[0]} ${BOTTOM} ${run[0].split(" ")[0]} ${BOTTOM}Z`).join(""));
        const [x, height] = known[0]?.at(-1).split(" ") ?? [-LEFT, 0];
        for (const [name, value] of [["cx", x], ["cy", height]]) find(`.dot.${own}`)?.setAttribute(name, value);
      });
      const money = find(".ticks.y").textContent.includes("$");
      const ticks = [];
      for (let value = 0; value <= end; value += step) ticks.push(value);
      find(".grid").setAttribute("d", ticks.map((value) => `M${LEFT} ${y(value)}H${WIDTH}`).join(""));
      find(".ticks.y").replaceChildren(...ticks.map((value) => svg("text", { x: LEFT - 12, y: y(value) + 8 },
        money ? `$${COMPACT.format(value / 100)}` : `${COMPACT.format(value / 100)}\u202f%`)));
      const ends = [rows[first], rows.at(-1)].map((row) => when(row).replace(/ \d{4}/, ""));
      find(".marks").setAttribute("d", `M${LEFT} ${BOTTOM}v10M${RIGHT} ${BOTTOM}v10`);
      find(".ticks.x").replaceChildren(
        svg("text", { x: LEFT, y: 338, class: "start" }, ends[0]), svg("text", { x: RIGHT, y: 338, class: "end" }, ends[1]));
    };
    return (days) => {
      const share = days * 86400 / Number(body.dataset.span);
      const from = share < 1 ? RIGHT - share * (RIGHT - LEFT) : LEFT;
      at = (x) => Math.round(RIGHT - (RIGHT - x) * (RIGHT - LEFT) / (RIGHT - from));
      plot.parentNode.classList.toggle("part", share < 1);
      if (share < 1) draw(from);
      else {
        plot.innerHTML = drawn;
        plot.append(cross, label);
        if (clipped) clipped.hidden = false;
      }
    };
  };
  const charts = () => {
    const ranged = [];
    for (const plot of document.querySelectorAll("svg.plot")) {
      if (!plot.parentNode.querySelector("[data-column]")) continue;
      const near = plot.closest(".protocol") ?? document;
      const table = near.querySelector(".data tbody");
      if (table) ranged.push(chart(plot, table));
    }
    const head = document.getElementById("over-time");
    const body = document.querySelector(".charts .data tbody");
    if (!head || !body || body.dataset.span < 8 * 86400) return;
    const box = make("div", { className: "ranges" });
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "How far back the charts go");
    for (const [text, days] of Object.entries(DAYS)) {
      const button = make("button", { type: "button", textContent: text });
      button.setAttribute("aria-pressed", days === Infinity);
      button.addEventListener("click", () => {
        for (const other of box.children) other.setAttribute("aria-pressed", other === button);
        for (const show of ranged) show(days);
      });
      box.append(button);
    }
    head.after(box);
  };

  // Snippets: the address that this page came from; buttons that copy these and contracts' addresses.
  const snippets = (root) => {
    if (location.protocol.startsWith("http")) {
      const base = new URL(root || ".", location.href).href.replace(/\/$/, "");
      for (const place of document.querySelectorAll(".base")) place.textContent = base;
    }
    if (!navigator.clipboard) return;
    const copier = (what, text, className) => {
      const button = make("button", { type: "button", className, textContent: "Copy" });
      button.setAttribute("aria-label", `Copy ${what}`);
      button.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(text());
          button.textContent = "Copied";
        } catch { button.textContent = "Not allowed"; }
        setTimeout(() => { button.textContent = "Copy"; }, 2000);
      });
      return button;
    };
    for (const snippet of document.querySelectorAll(".snippet")) {
      const title = snippet.querySelector("h3").firstChild.textContent.trim();
      snippet.append(copier(`the snippet for ${title}`, () => snippet.querySelector("pre").textContent + "\n", "copy"));
    }
    for (const address of document.querySelectorAll("code.address")) {
      address.after(copier(`the address ${address.textContent}`, () => address.textContent, "copy inline"));
    }
  };

  // An anchor inside something folded: not every browser opens it by itself.
  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = target?.closest("details:not([open])");
    if (folded) { folded.open = true; target.scrollIntoView(); }
  };

  // What moves nothing on the first screen comes in tasks of its own: whoever scrolls or types is not kept waiting.
  const start = () => {
    const root = document.body.dataset.root;
    search(root);
    themeButton();
    for (const table of document.querySelectorAll("table.list")) { sortable(table); filterable(table); }
    unfold();
    for (const part of [charts, () => snippets(root), hints, () => freshness(root)]) setTimeout(part);
    addEventListener("hashchange", unfold);
    addEventListener("resize", hints);
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();
