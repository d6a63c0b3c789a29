// What pages do beyond being read: theme, freshness, sorting, filtering, snippets. Without it everything is still there.
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

  // Freshness: the pointer says when the run was published and when the next is due.
  const ago = (seconds) => {
    const steps = [[86400 * 2, 86400, "day"], [3600 * 2, 3600, "hour"], [120, 60, "minute"]];
    for (const [least, unit, name] of steps) if (seconds >= least) return `${Math.floor(seconds / unit)} ${name}s`;
    return seconds < 60 ? "less than a minute" : "a minute";
  };
  const DAY = 86400 * 1000;  // without a promise of the next run, older numbers are stale
  const freshness = async (root) => {
    const line = document.getElementById("fresh");
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
    const show = () => {
      const now = Date.now();
      line.querySelector(".age").textContent = now >= closed ? ` · ${ago((now - closed) / 1000)} ago` : "";
      const late = due === null ? now - closed > DAY : now > due;
      line.dataset.fresh = late ? "no" : due === null ? "unknown" : "yes";
      const newer = newest !== null && newest > Number(document.body.dataset.ledger);
      if ((late || newer) && banner === null) {
        banner = make("div", { className: "stale", id: "stale" }, make("p"));
        banner.setAttribute("role", "status");
        document.querySelector(".top").after(banner);
      }
      if (late) {
        const why = due === null
          ? `they are ${ago((now - closed) / 1000)} old`
          : `the next run was due ${ago((now - due) / 1000)} ago and has not come`;
        banner.firstChild.textContent = `These numbers are stale: ${why}.`;
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
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const kind = head.dataset.sort;
      if (!kind) return;
      const button = make("button", { type: "button", className: "sort" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const first = kind === "number" ? "descending" : "ascending";
        const order = before === null ? first : before === "ascending" ? "descending" : "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const keyed = [...body.rows].map((row) => [keyOf(row, column, kind), row]);
        keyed.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : sign * compare(a, b)));
        body.append(...keyed.map(([, row]) => row));
      });
    });
  };
  const filterable = (table) => {
    const rows = [...table.tBodies[0].rows];
    if (rows.length < 8) return;
    const what = table.dataset.filter;
    const texts = rows.map((row) =>
      [row.textContent, ...[...row.querySelectorAll("a, [title]")].map((part) => `${part.title} ${part.getAttribute("href") ?? ""}`)]
        .join(" ").toLowerCase());
    const field = make("input", { type: "search", placeholder: `Filter these ${what}` });
    field.setAttribute("aria-label", `Filter ${what} by name or address`);
    const tally = make("span");
    tally.setAttribute("role", "status");
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, index) => {
        row.hidden = !words.every((word) => texts[index].includes(word));
        shown += row.hidden ? 0 : 1;
      });
      tally.textContent = words.length ? `${shown} of ${rows.length}` : "";
    });
    table.closest(".scroll").before(make("div", { className: "tools" }, field, tally));
  };
  const hints = () => {
    for (const box of document.querySelectorAll(".scroll")) box.classList.toggle("wide", box.scrollWidth > box.clientWidth + 1);
  };

  // One search over markets, tokens and pools, in the API's own lists, which are fetched when somebody begins to type.
  const MOST_FOUND = 12;
  const search = (root) => {
    if (!location.protocol.startsWith("http")) return;
    const native = document.body.dataset.xlm;
    const named = (symbol, address) => (symbol === "native" && (!native || address === native) ? "XLM" : symbol);
    const list = async (key) => (await (await fetch(`${root}v1/${key}.json`)).json()).data;
    const entry = (kind, name, of, key, ...more) =>
      ({ kind, name, of, href: `${root}${key}.html`, text: [kind, name, of, ...more].join(" ").toLowerCase() });
    const load = async () => {
      const [markets, tokens, pools] = await Promise.all(["markets", "tokens", "pools/index"].map(list));
      return [
        ...markets.map((item) => entry("market", item.name, item.protocol, `markets/${item.market}`, item.market)),
        ...tokens.map((item) => entry("token", named(item.symbol, item.address), `${item.address.slice(0, 4)}…${item.address.slice(-4)}`, `tokens/${item.address}`, item.address)),
        ...pools.map((item) => entry("pool", named(item.symbol, item.token_address), item.market_name,
          `pools/${item.market}/${item.pool}`, item.protocol, item.pool)),
      ];
    };
    const field = make("input", { type: "search", placeholder: "Search" });
    field.setAttribute("aria-label", "Search markets, tokens and pools");
    const found = make("ul");
    const said = make("p");
    said.setAttribute("role", "status");
    const box = make("div", { className: "found", hidden: true }, said, found);
    let entries = null;
    const show = async () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      box.hidden = !words.length;
      if (box.hidden) return;
      try { entries = await (entries ??= load()); } catch { entries = null; said.textContent = "The lists could not be loaded."; return; }
      const exact = (item) => words.includes(item.name.toLowerCase());  // a symbol or name that was typed in full
      const hits = entries.filter((item) => words.every((word) => item.text.includes(word)));
      hits.sort((one, other) => exact(other) - exact(one));
      said.textContent = hits.length > MOST_FOUND ? `${MOST_FOUND} of ${hits.length} found` : `${hits.length} found`;
      found.replaceChildren(...hits.slice(0, MOST_FOUND).map((item) => make("li", {},
        make("a", { href: item.href }, make("bdi", { textContent: item.name.slice(0, 36) })),
        make("span", { className: "quiet" }, ` ${item.kind} ${{ pool: "in ", market: "of ", token: "" }[item.kind]}`,
          make("bdi", { textContent: item.of.slice(0, 36) })))));
    };
    field.addEventListener("input", show);
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") box.hidden = true; });
    document.querySelector(".bar nav").after(make("div", { className: "find" }, field, box));
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

  // The newest files of the history, from its manifest.
  const SHOWN_FILES = 30;
  const files = async (root) => {
    const place = document.getElementById("history-files");
    if (!place || !location.protocol.startsWith("http")) return;
    let manifest;
    try { manifest = await (await fetch(root + place.dataset.manifest)).json(); } catch { return; }
    const number = (value) => value.toLocaleString("en-US");
    const head = make("tr", {}, ...["File", "Ledgers", "Rows", "Bytes"].map((text, index) =>
      make("th", { scope: "col", textContent: text, className: index > 1 ? "number" : "" })));
    const rows = manifest.files.slice(-SHOWN_FILES).reverse().map((file) => make("tr", {},
      make("td", {}, make("a", { href: root + file.key, textContent: file.key.split("/").slice(-2).join("/"), download: "" })),
      make("td", { textContent: file.first_ledger === file.last_ledger ? number(file.first_ledger) : `${number(file.first_ledger)} to ${number(file.last_ledger)}` }),
      make("td", { textContent: number(file.rows), className: "number" }),
      make("td", { textContent: number(file.bytes), className: "number" })));
    const box = make("div", { className: "scroll", tabIndex: 0 }, make("table", {},
      make("caption", { textContent: "The newest files of the history" }), make("thead", {}, head), make("tbody", {}, ...rows)));
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "The newest files of the history");
    place.replaceChildren(box);
    hints();
  };

  document.addEventListener("DOMContentLoaded", () => {
    const root = document.body.dataset.root;
    search(root);
    themeButton();
    for (const table of document.querySelectorAll("table.list")) { sortable(table); filterable(table); }
    snippets(root);
    hints();
    addEventListener("resize", hints);
    freshness(root);
    files(root);
  });
})();
