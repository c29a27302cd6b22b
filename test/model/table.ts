import { WORDS } from './state.ts';

/**
 * A set of packed states, numbered in the order in which they came. Open addressing over typed arrays, since a JavaScript `Set` ends at
 * 16.7 million. A slot holds a state's number and, in the bits that are left, a piece of its hash.
 */
export interface StateTable {
  readonly size: number;
  /** Bytes in use. */
  readonly bytes: number;
  /** Words of all states, one after another; replaced when the table grows. */
  readonly words: Uint32Array;
  /** The number of the state whose words these are; a new one is added as coming from `parent`, and the answer is then negative: -1 - number. */
  add(words: Uint32Array, parent: number): number;
  parent(id: number): number;
}

const NUMBER_BITS = 27;
const NUMBER_MASK = 2 ** NUMBER_BITS - 1;

/** An empty table. */
export function stateTable(): StateTable {
  let capacity = 1 << 12;
  let words = new Uint32Array(capacity * WORDS);
  let parents = new Uint32Array(capacity);
  let slots = new Uint32Array(capacity * 2);
  let size = 0;

  const isAt = (id: number, key: Uint32Array): boolean => {
    const from = id * WORDS;
    for (let word = 0; word < WORDS; word++) if (words[from + word] !== key[word]) return false;
    return true;
  };
  /** The slot where the state is, or an empty one. */
  const slotOf = (key: Uint32Array, hash: number): number => {
    const mask = slots.length - 1;
    const tag = hash >>> NUMBER_BITS;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const entry = slots[slot] as number;
      if (entry === 0) return slot;
      if (entry >>> NUMBER_BITS === tag && isAt((entry & NUMBER_MASK) - 1, key)) return slot;
    }
  };
  const grow = (): void => {
    capacity *= 2;
    if (capacity > NUMBER_MASK) throw new RangeError(`The table holds at most ${NUMBER_MASK} states.`);
    const before = words;
    words = new Uint32Array(capacity * WORDS);
    words.set(before);
    const parentsBefore = parents;
    parents = new Uint32Array(capacity);
    parents.set(parentsBefore);
    slots = new Uint32Array(capacity * 2);
    const mask = slots.length - 1;
    for (let id = 0; id < size; id++) {
      const hash = hashOf(words, id * WORDS);
      let slot = hash & mask;
      while (slots[slot] !== 0) slot = (slot + 1) & mask;
      slots[slot] = ((hash >>> NUMBER_BITS) << NUMBER_BITS) | (id + 1);
    }
  };

  return {
    get size() {
      return size;
    },
    get bytes() {
      return words.byteLength + parents.byteLength + slots.byteLength;
    },
    get words() {
      return words;
    },
    add(key, parent) {
      const hash = hashOf(key, 0);
      let slot = slotOf(key, hash);
      const entry = slots[slot] as number;
      if (entry !== 0) return (entry & NUMBER_MASK) - 1;
      if (size === capacity) {
        grow();
        slot = slotOf(key, hash);
      }
      const id = size++;
      words.set(key, id * WORDS);
      parents[id] = parent;
      slots[slot] = ((hash >>> NUMBER_BITS) << NUMBER_BITS) | (id + 1);
      return -1 - id;
    },
    parent: (id) => parents[id] as number,
  };
}

/** A list of 32-bit numbers that grows. */
export interface NumberList {
  readonly size: number;
  readonly bytes: number;
  /** Longer than `size`; replaced when the list grows. */
  readonly numbers: Uint32Array;
  push(number: number): void;
}

/** An empty list. */
export function numberList(): NumberList {
  let numbers = new Uint32Array(1 << 12);
  let size = 0;
  return {
    get size() {
      return size;
    },
    get bytes() {
      return numbers.byteLength;
    },
    get numbers() {
      return numbers;
    },
    push(number) {
      if (size === numbers.length) {
        const before = numbers;
        numbers = new Uint32Array(size * 2);
        numbers.set(before);
      }
      numbers[size++] = number;
    },
  };
}

/** Mixes the words as MurmurHash3 does. */
function hashOf(words: Uint32Array, from: number): number {
  let hash = 0x9e3779b9;
  for (let word = 0; word < WORDS; word++) {
    let mixed = Math.imul(words[from + word] as number, 0xcc9e2d51);
    mixed = Math.imul((mixed << 15) | (mixed >>> 17), 0x1b873593);
    hash ^= mixed;
    hash = Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe6546b64;
  }
  hash ^= hash >>> 16;
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
