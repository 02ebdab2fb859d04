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

  var value = function (row, i) {
    var text = row.cells[i].textContent.trim(), number = parseFloat(text.replace(/[,\s]/g, "").replace(/^[–−]/, "-"));
    var unit = /([kMG])B$/.exec(text);
    return isNaN(number) ? text.toLowerCase() : number * (unit ? { k: 1e3, M: 1e6, G: 1e9 }[unit[1]] : 1);
  };
  document.querySelectorAll("table[data-sortable]").forEach(function (table) {
    var body = table.tBodies[0];
    if (body.rows.length < 3) { return; }
    Array.from(table.tHead.rows[0].cells).forEach(function (head, i, heads) {
      if (!head.textContent.trim()) { return; }
      var button = document.createElement("button");
      button.type = "button";
      button.append.apply(button, Array.from(head.childNodes));
      head.append(button);
      button.addEventListener("click", function () {
        var up = head.getAttribute("aria-sort") !== "ascending", sign = up ? 1 : -1;
        heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        Array.from(body.rows).sort(function (a, b) {
          var x = value(a, i), y = value(b, i);
          if (typeof x !== typeof y) { return typeof x === "number" ? -1 : 1; }
          return sign * (typeof x === "number" ? x - y : x.localeCompare(y));
        }).forEach(function (row) { body.append(row); });
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
