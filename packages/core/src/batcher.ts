import type { Clock, Timer } from './clock.ts';
import { LeaseholdError } from './errors.ts';

/** Gathers single items into calls of many. */
export interface Batcher<Item, Outcome> {
  /** Resolves with the item's own outcome; rejects when its flush rejected, or when the batcher was closed before. */
  add(item: Item): Promise<Outcome>;
  /** Sends what is gathered now and resolves when nothing is on its way any more. */
  drain(): Promise<void>;
  /** True when nothing is gathered and nothing is on its way. */
  readonly idle: boolean;
  /** Drains; items added after this are refused. */
  close(): Promise<void>;
}

/** Flushes at `maxItems` or `maxBytes`, else `lingerMs` after the first item. `flush` answers one outcome per item, in order. */
export function batcher<Item, Outcome>(options: {
  readonly clock: Clock;
  readonly maxItems: number;
  readonly lingerMs: number;
  readonly maxBytes?: number;
  readonly sizeOf?: (item: Item) => number;
  readonly flush: (items: readonly Item[]) => Promise<readonly Outcome[]>;
}): Batcher<Item, Outcome> {
  interface Entry {
    readonly item: Item;
    readonly resolve: (outcome: Outcome) => void;
    readonly reject: (error: unknown) => void;
  }
  let gathered: Entry[] = [];
  let bytes = 0;
  let timer: Timer | undefined;
  let closed = false;
  const inFlight = new Set<Promise<void>>();

  const send = (): void => {
    timer?.cancel();
    timer = undefined;
    if (gathered.length === 0) return;
    const batch = gathered;
    gathered = [];
    bytes = 0;
    const flight = options.flush(batch.map((entry) => entry.item)).then(
      (outcomes) =>
        batch.forEach((entry, index) => {
          const outcome = outcomes[index];
          if (outcome === undefined)
            entry.reject(
              new LeaseholdError('unavailable', 'The backend answered fewer outcomes than it was asked for.'),
            );
          else entry.resolve(outcome);
        }),
      (error: unknown) => batch.forEach((entry) => entry.reject(error)),
    );
    inFlight.add(flight);
    void flight.finally(() => inFlight.delete(flight));
  };
  const drain = async (): Promise<void> => {
    while (gathered.length > 0 || inFlight.size > 0) {
      send();
      await Promise.all(inFlight);
    }
  };
  return {
    add(item) {
      if (closed) return Promise.reject(new LeaseholdError('closed', 'The broker was closed; nothing more is sent.'));
      const size = options.sizeOf?.(item) ?? 0;
      if (options.maxBytes !== undefined && bytes + size > options.maxBytes) send();
      const outcome = new Promise<Outcome>((resolve, reject) => gathered.push({ item, resolve, reject }));
      bytes += size;
      if (gathered.length >= options.maxItems) send();
      else timer ??= options.clock.timer(options.lingerMs, send);
      return outcome;
    },
    drain,
    get idle() {
      return gathered.length === 0 && inFlight.size === 0;
    },
    close() {
      closed = true;
      return drain();
    },
  };
}
