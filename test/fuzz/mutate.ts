/** A small seeded generator (mulberry32): a printed seed gives the same inputs again. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const HOSTILE: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  0.5,
  2 ** 53,
  -0,
  1e308,
  '',
  ' ',
  '0',
  'é'.repeat(300),
  '\u0000',
  '__proto__',
  'x'.repeat(5_000),
  [],
  {},
  [[]],
  { __proto__: null },
  JSON.parse('{"__proto__":{"polluted":true}}'),
  JSON.parse('{"constructor":{"prototype":{"polluted":true}}}'),
];
const NAMES = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'id',
  'type',
  'source',
  'specversion',
  'data',
  'data_base64',
  'state',
  'effects',
  '',
];

/** A JSON value like `value` with one or a few places changed, added or taken away. */
export function mutateJson(value: unknown, random: () => number): unknown {
  let changed: unknown = structuredClone(value);
  for (let times = 1 + Math.floor(random() * 3); times > 0; times--) changed = mutateOnce(changed, random);
  return changed;
}

function mutateOnce(value: unknown, random: () => number): unknown {
  if (random() < 0.25 || typeof value !== 'object' || value === null) return pick(HOSTILE, random);
  if (Array.isArray(value)) {
    const at = Math.floor(random() * (value.length + 1));
    return value.toSpliced(at, random() < 0.5 ? 1 : 0, mutateOnce(value[at], random));
  }
  const keys = Object.keys(value);
  const name = random() < 0.7 && keys.length > 0 ? pick(keys, random) : pick(NAMES, random);
  const copy: Record<string, unknown> = { ...value };
  if (random() < 0.2) delete copy[name];
  else
    Object.defineProperty(copy, name, {
      value: mutateOnce(copy[name], random),
      enumerable: true,
      configurable: true,
      writable: true,
    });
  return copy;
}

/** Bytes like `bytes`, cut, doubled, flipped or followed by rubbish. */
export function mutateBytes(bytes: Uint8Array, random: () => number): Uint8Array {
  const copy = Uint8Array.from(bytes);
  switch (Math.floor(random() * 6)) {
    case 0:
      return copy.slice(0, Math.floor(random() * copy.length));
    case 1:
      copy[Math.floor(random() * copy.length)] = Math.floor(random() * 256);
      return copy;
    case 2:
      return new Uint8Array([...copy, ...copy]);
    case 3:
      return Uint8Array.from({ length: Math.floor(random() * 64) }, () => Math.floor(random() * 256));
    case 4:
      return new TextEncoder().encode('['.repeat(Math.floor(random() * 20_000)));
    default:
      return copy;
  }
}

/** One of them. */
export function pick<Item>(items: readonly Item[], random: () => number): Item {
  return items[Math.floor(random() * items.length)] as Item;
}
