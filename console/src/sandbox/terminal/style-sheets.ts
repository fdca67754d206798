// Lets xterm.js work under a policy without inline styles: the style elements that it makes become style sheets of the
// document, and the style attributes that it sets become properties. The policy permits both to a script.

/** A document for xterm.js, with other elements. */
export function withStyleSheets(real: Document): Document {
  return new Proxy(real, {
    get(target, property) {
      if (property === 'createElement') return createElement;
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** Opens a terminal. Meanwhile xterm.js makes some elements with the real document, whatever its options are. */
export function openWithStyleSheets(open: () => void): void {
  Object.defineProperty(document, 'createElement', { value: createElement, configurable: true });
  try {
    open();
  } finally {
    Reflect.deleteProperty(document, 'createElement');
  }
}

function createElement(name: string, options?: ElementCreationOptions): Element {
  if (name === 'style') return createStyle();
  const element: HTMLElement = Document.prototype.createElement.call(document, name, options);
  // The spans of its rows, for colours and the width of characters.
  if (name === 'span') element.setAttribute = setAttribute;
  return element;
}

function setAttribute(this: HTMLElement, name: string, value: string): void {
  if (name === 'style') this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}

/** An element without effect whose text is a style sheet; the sheet goes when the element is removed. */
function createStyle(): Element {
  const sheet = new CSSStyleSheet();
  const element = Document.prototype.createElement.call(document, 'span');
  element.hidden = true;
  document.adoptedStyleSheets.push(sheet);
  Object.defineProperty(element, 'textContent', {
    get: () => '',
    set: (text: string) => sheet.replaceSync(text),
  });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}
