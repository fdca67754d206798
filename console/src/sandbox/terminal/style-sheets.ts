// Lets xterm.js work under a policy without inline styles: the style elements that it makes become style sheets of the
// document, which the policy permits to a script.

/** A document for xterm.js, whose style elements are not elements. */
export function withStyleSheets(real: Document): Document {
  const createElement = (name: string, options?: ElementCreationOptions): Element =>
    name === 'style' ? createStyle(real) : real.createElement(name, options);
  return new Proxy(real, {
    get(target, property) {
      if (property === 'createElement') return createElement;
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** An element without effect whose text is a style sheet; the sheet goes when the element is removed. */
function createStyle(real: Document): Element {
  const sheet = new CSSStyleSheet();
  const element = real.createElement('span');
  element.hidden = true;
  real.adoptedStyleSheets.push(sheet);
  Object.defineProperty(element, 'textContent', {
    get: () => '',
    set: (text: string) => sheet.replaceSync(text),
  });
  element.remove = () => {
    real.adoptedStyleSheets = real.adoptedStyleSheets.filter((each) => each !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}
