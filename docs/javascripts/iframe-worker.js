// Pages opened from disk may not start a web worker. Search runs in a hidden frame of the page there instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "Search";
      (document.body || document.documentElement).appendChild(this.frame);
      const inside = this.frame.contentWindow;
      window.addEventListener("message", (event) => {
        if (event.source === inside) this.answer(event.data);
      });
      inside.document.open();
      inside.document.write("<!doctype html><script>postMessage = (data) => parent.postMessage(data, '*');</script>");
      inside.document.close();
      const script = inside.document.createElement("script");
      script.src = url;
      script.onload = () => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      };
      inside.document.body.appendChild(script);
    }
    answer(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data, source: window }));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
