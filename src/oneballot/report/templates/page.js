(function () {
  "use strict";
  var root = document.documentElement;
  var toggle = document.createElement("button");
  var dark = function () {
    return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  var label = function () { toggle.textContent = dark() ? "Light page" : "Dark page"; };
  toggle.type = "button";
  toggle.className = "theme";
  toggle.addEventListener("click", function () { root.dataset.theme = dark() ? "light" : "dark"; label(); });
  label();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  document.querySelector("header.page").prepend(toggle);

  // A box that scrolls can have the focus, so that the keyboard can scroll it.
  var scrollers = function () {
    document.querySelectorAll(".scroll, pre").forEach(function (box) {
      if (box.scrollWidth > box.clientWidth) {
        box.tabIndex = 0;
        box.setAttribute("role", "region");
        box.setAttribute("aria-label", box.querySelector("caption") ? box.querySelector("caption").textContent : "Commands");
      } else {
        ["tabindex", "role", "aria-label"].forEach(function (name) { box.removeAttribute(name); });
      }
    });
  };
  scrollers();
  addEventListener("resize", scrollers);
  document.addEventListener("toggle", scrollers, true);

  // "about 1,200" is 1200, "< 10" is a little less than 10, and what is not known comes last.
  var number = function (text) {
    var found = /^(about |[<>~≥≤±] ?)?([-+–−]?[\d., \u00a0\u202f]+)/.exec(text), unit = /([kMG])B$/.exec(text);
    if (!found) { return NaN; }
    var plain = parseFloat(found[2].replace(/[, \u00a0\u202f]/g, "").replace(/^[–−]/, "-"));
    return plain * (unit ? { k: 1e3, M: 1e6, G: 1e9 }[unit[1]] : 1) - (found[1] || "").startsWith("<") / 1e6;
  };
  var compare = function (x, y, numbers, sign) {
    if (!numbers) { return sign * x.localeCompare(y, undefined, { numeric: true }); }
    var a = number(x), b = number(y);
    return isNaN(a) || isNaN(b) ? isNaN(a) - isNaN(b) : sign * (a - b);
  };
  var strong = function (row) { return row.classList.contains("strong"); };
  document.querySelectorAll("table[data-sortable]").forEach(function (table) {
    var body = table.tBodies[0], rows = Array.from(body.rows), top = 0, end = rows.length;
    // Totals and the model of this page stay at the edge where they are.
    while (top < end && strong(rows[top])) { top += 1; }
    while (end > top && strong(rows[end - 1])) { end -= 1; }
    var free = rows.slice(top, end), last = rows.slice(end);
    if (free.length < 2 || rows.length < 3) { return; }
    Array.from(table.tHead.rows[0].cells).forEach(function (head, i, heads) {
      if (!head.textContent.trim()) { return; }
      var button = document.createElement("button");
      button.type = "button";
      button.append.apply(button, Array.from(head.childNodes));
      head.append(button);
      button.addEventListener("click", function () {
        var up = head.getAttribute("aria-sort") !== "ascending", text = function (row) {
          return row.cells[i].textContent.trim();
        };
        heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        free.sort(function (a, b) { return compare(text(a), text(b), head.classList.contains("n"), up ? 1 : -1); });
        free.concat(last).forEach(function (row) { body.append(row); });
      });
    });
  });
  addEventListener("beforeprint", function () {
    document.querySelectorAll("details:not([open])").forEach(function (d) { d.dataset.closed = ""; d.open = true; });
  });
  addEventListener("afterprint", function () {
    document.querySelectorAll("details[data-closed]").forEach(function (d) { d.open = false; delete d.dataset.closed; });
  });
})();
