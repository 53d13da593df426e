// What a page becomes is asked for while somebody sees it. A browser has few connections to one host, and each page that is
// live takes one: with some pages in the background no further one could be loaded.
"use strict";

class SeenSource extends EventTarget {
  #address;
  #source = null;
  #isClosed = false;
  #follow = () => {
    const isWanted = !this.#isClosed && !document.hidden;
    if (isWanted && this.#source === null) {
      this.#open();
    } else if (!isWanted && this.#source !== null) {
      this.#source.close();
      this.#source = null;
    }
  };

  constructor(address) {
    super();
    this.#address = address;
    document.addEventListener("visibilitychange", this.#follow);
    this.#follow();
  }

  #open() {
    const source = new EventSource(this.#address);
    source.onopen = (event) => this.onopen?.(event);
    source.onmessage = ({ data }) => this.dispatchEvent(new MessageEvent("message", { data }));
    source.onerror = (event) => {
      // A browser does not try again by itself when it was refused; the extension does, with another source.
      if (source.readyState === EventSource.CLOSED) this.close();
      this.onerror?.(event);
    };
    this.#source = source;
  }

  get readyState() {
    return this.#isClosed ? EventSource.CLOSED : (this.#source?.readyState ?? EventSource.CONNECTING);
  }

  close() {
    this.#isClosed = true;
    document.removeEventListener("visibilitychange", this.#follow);
    this.#follow();
  }
}

htmx.createEventSource = (address) => new SeenSource(address);
