/** States of the model: every field is a small number in one byte; packed, a state is a few 32-bit words. */

/** Where the task's record is in its life. */
export const Task = { none: 0, queued: 1, running: 2, settled: 3, dead: 4, cancelled: 5, human: 6 } as const;
/** What the record, or a worker, knows of the task's one effect. */
export const Effect = { none: 0, intended: 1, verified: 2, absent: 3, inDoubt: 4 } as const;
/** The way out that was chosen for a task whose effect has to be read back first. */
export const Closing = { no: 0, dead: 1, cancelled: 2 } as const;
/** Writes to the record. */
export const Write = {
  nothing: 0,
  claim: 1,
  renew: 2,
  intend: 3,
  settle: 4,
  release: 5,
  giveUp: 6,
  deadLetter: 7,
  closeAsDead: 8,
  closeAsCancelled: 9,
  endClose: 10,
  askHuman: 11,
} as const;
/** Where a worker is. From `work` to `askHuman` it holds the task; a step named like a write sends that write and waits for it. */
export const At = {
  idle: 0,
  claim: 1,
  parked: 2,
  work: 3,
  intend: 4,
  ready: 5,
  calling: 6,
  verify: 7,
  readBack: 8,
  settle: 9,
  release: 10,
  giveUp: 11,
  deadLetter: 12,
  closeAsDead: 13,
  closeAsCancelled: 14,
  closeRead: 15,
  endClose: 16,
  askHuman: 17,
  followUp: 18,
  acknowledge: 19,
  handBack: 20,
  reject: 21,
} as const;
/** Where a message is. */
export const Message = { gone: 0, visible: 1, taken: 2, deadLettered: 3 } as const;
/** Which message bears the record's current token: a copy made after a release, one that was dead-lettered; or was dead-lettered by the broker itself. */
export const Bears = { nothing: 0, released: 1, redriven: 2, byBroker: 3 } as const;
/** How far a call to the receiver has come. */
export const Call = { onItsWay: 0, admitted: 1, done: 2 } as const;
/** What the guard remembers of the effect's key. */
export const Key = { unknown: 0, held: 1, inDoubt: 2, done: 3 } as const;

// Bits per field. All times are in ticks still to go, so that the model needs no clock: see docs/model.md.
const RECORD = {
  state: 3,
  owner: 1,
  token: 4,
  failures: 2,
  effect: 3,
  cancel: 1,
  closing: 2,
  /** 3 live, 2 live but the store's clock cannot be sure, 1 over but it cannot be sure, 0 over. */
  lease: 2,
  /** Ticks since the last intent, as far as a plain receiver's quiet time needs them. */
  sinceIntent: 3,
  /** Watched by the invariants: settles accepted, the highest token ever granted, whether the follow-ups were sent. */
  settles: 2,
  granted: 4,
  followed: 1,
} as const;
const RECEIVER = {
  highest: 4,
  key: 2,
  /** Watched by the invariants: how often the effect happened, the highest token that the receiver was shown. */
  effects: 2,
  shown: 4,
} as const;
const WORLD = {
  /** Faults that may still happen. */
  faults: 3,
  /** The invariant that the last step broke. */
  broken: 4,
} as const;
const MESSAGE = {
  at: 2,
  /** Whether it bears the record's current token, and why. */
  bears: 2,
} as const;
const CALL = {
  /** 0: there is no call here. */
  token: 4,
  at: 2,
  /** The worker that waits for the answer, plus one. */
  caller: 2,
  age: 2,
} as const;
const WORKER = {
  at: 5,
  /** The message it took, plus one; `stale` when the broker delivered it again meanwhile. */
  message: 2,
  stale: 1,
  /** The record as the worker knows it; `fresh` while nobody wrote since. */
  token: 4,
  effect: 3,
  cancel: 1,
  closing: 2,
  fresh: 1,
  /** Ticks of confirmed time: 2 held, 1 the margin is reached, 0 over. */
  time: 2,
  /** A write got no answer. */
  unknown: 1,
  /** The machine slept: 2 since the last write left, 1 before that. */
  slept: 2,
  /** What was read back and rides on the next write, as an effect status. */
  found: 3,
  /** A write was refused although the worker goes on; only without the rule that a loss is final. */
  refused: 1,
  /** The write on its way, the ticks left of first sending + L, the finding it carries, whether it was applied without an answer. */
  write: 4,
  left: 2,
  carries: 3,
  applied: 1,
  /** Ticks left of the intent's first sending + L; only at a plain receiver. */
  intentLeft: 2,
  /** A write that was given up and may still be applied. */
  late: 4,
  lateLeft: 2,
  lateToken: 4,
  lateFound: 3,
} as const;

type Part<Layout> = { -readonly [Name in keyof Layout]: number };
export type TaskRecord = Part<typeof RECORD>;
type Receiver = Part<typeof RECEIVER>;
type QueuedMessage = Part<typeof MESSAGE>;
type OutsideCall = Part<typeof CALL>;
export type Worker = Part<typeof WORKER>;

/** One state, as named views of its bytes. */
export interface State {
  readonly cells: Uint8Array;
  readonly record: TaskRecord;
  readonly receiver: Receiver;
  readonly world: Part<typeof WORLD>;
  readonly messages: readonly [QueuedMessage, QueuedMessage];
  readonly calls: readonly [OutsideCall, OutsideCall];
  readonly workers: readonly [Worker, Worker];
}
/** The two workers, as indices. */
export type Who = 0 | 1;
export const BOTH: readonly Who[] = [0, 1];

const PARTS = [WORKER, WORKER, RECORD, RECEIVER, WORLD, CALL, CALL, MESSAGE, MESSAGE] as const;
const WIDTHS: readonly number[] = PARTS.flatMap((part) => Object.values(part));
const SIZE = WIDTHS.length;
/** For each byte its word and its place in it; no field crosses a word's end. */
const WORD = new Uint8Array(SIZE);
const SHIFT = new Uint8Array(SIZE);
const MASK = new Uint8Array(SIZE);
/** For each word the cell after its last. */
const FIRST_AFTER = new Uint8Array(SIZE);
/** 32-bit words of a packed state. */
export const WORDS: number = layOut();

function layOut(): number {
  let word = 0;
  let used = 0;
  for (const [cell, width] of WIDTHS.entries()) {
    if (used + width > 32) {
      word += 1;
      used = 0;
    }
    WORD[cell] = word;
    SHIFT[cell] = used;
    MASK[cell] = (1 << width) - 1;
    FIRST_AFTER[word] = cell + 1;
    used += width;
  }
  return word + 1;
}

/** Where a part's cells are. */
interface Place {
  readonly cells: Uint8Array;
  readonly from: number;
}

/** Makes views of cells under the names of a layout. One shape per layout, so that a name is as fast as an index. */
function viewsOf<Layout extends object>(layout: Layout): (cells: Uint8Array, from: number) => Part<Layout> {
  class View {
    readonly cells: Uint8Array;
    readonly from: number;

    constructor(cells: Uint8Array, from: number) {
      this.cells = cells;
      this.from = from;
    }
  }
  for (const [index, [name, width]] of Object.entries(layout).entries()) {
    const most = (1 << (width as number)) - 1;
    Object.defineProperty(View.prototype, name, {
      get(this: Place) {
        return this.cells[this.from + index];
      },
      set(this: Place, value: number) {
        if (value > most) throw new RangeError(`${name} cannot hold ${value}: the model's bounds are too small.`);
        this.cells[this.from + index] = value;
      },
    });
  }
  return (cells, from) => new View(cells, from) as unknown as Part<Layout>;
}

const viewWorker = viewsOf(WORKER);
const viewRecord = viewsOf(RECORD);
const viewReceiver = viewsOf(RECEIVER);
const viewWorld = viewsOf(WORLD);
const viewCall = viewsOf(CALL);
const viewMessage = viewsOf(MESSAGE);

/** A state of zeros. */
export function blankState(): State {
  const cells = new Uint8Array(SIZE);
  let from = 0;
  const next = <View>(view: (cells: Uint8Array, from: number) => View, layout: object): View => {
    const part = view(cells, from);
    from += Object.keys(layout).length;
    return part;
  };
  // In the order of PARTS.
  const workers = [next(viewWorker, WORKER), next(viewWorker, WORKER)] as const;
  const record = next(viewRecord, RECORD);
  const receiver = next(viewReceiver, RECEIVER);
  const world = next(viewWorld, WORLD);
  const calls = [next(viewCall, CALL), next(viewCall, CALL)] as const;
  const messages = [next(viewMessage, MESSAGE), next(viewMessage, MESSAGE)] as const;
  return { cells, workers, record, receiver, world, calls, messages };
}

/** Packs a state into `words`, from `at` on. */
export function pack(state: State, words: Uint32Array, at: number): void {
  const { cells } = state;
  for (let word = 0, cell = 0; word < WORDS; word++) {
    const end = FIRST_AFTER[word] as number;
    let value = 0;
    for (; cell < end; cell++) value |= (cells[cell] as number) << (SHIFT[cell] as number);
    words[at + word] = value;
  }
}

/** Reads a state back. */
export function unpack(words: Uint32Array, at: number, state: State): void {
  const { cells } = state;
  for (let cell = 0; cell < SIZE; cell++) {
    cells[cell] = ((words[at + (WORD[cell] as number)] as number) >>> (SHIFT[cell] as number)) & (MASK[cell] as number);
  }
}
