/** Headers as Node keeps them: names in lower case. */
export type HeaderValues = Readonly<Record<string, number | string | readonly string[] | undefined>>;

/** What holds the headers of a reply that is not sent yet. */
export interface HeaderBag {
  getHeaders(): HeaderValues;
  set(name: string, value: string | readonly string[]): void;
  remove(name: string): void;
}

/** The headers that a handler added to those that were there before it, or changed. Only these are its answer. */
export function headersSince(before: HeaderValues, now: HeaderValues): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(now)) {
    if (value === undefined || textOf(value) === textOf(before[name])) continue;
    for (const one of [value].flat()) headers.append(name, String(one));
  }
  return headers;
}

/** Makes the headers those that were there `before` the handler and, over them, those of the answer. What is right already is left alone. */
export function putHeaders(bag: HeaderBag, before: HeaderValues, answer: Headers): void {
  const wanted = new Map(Object.entries(before) as [string, string | readonly string[]][]);
  for (const [name, value] of answer) wanted.set(name, name === 'set-cookie' ? answer.getSetCookie() : value);
  const now = bag.getHeaders();
  for (const name of Object.keys(now)) if (!wanted.has(name)) bag.remove(name);
  for (const [name, value] of wanted) {
    if (textOf(now[name]) === textOf(value)) continue;
    bag.remove(name);
    bag.set(name, value);
  }
}

function textOf(value: HeaderValues[string]): string | undefined {
  return value === undefined ? undefined : [value].flat().join(', ');
}
