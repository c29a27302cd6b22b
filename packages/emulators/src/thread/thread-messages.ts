/** What the main thread gives a server thread at its start. */
export interface ThreadStart {
  /** Where the thread counts the polls that it has parked: one Int32. */
  readonly parked: SharedArrayBuffer;
  /** Epoch milliseconds of hand-moved time; absent = the machine's clock. */
  readonly now?: number;
}

/** The main thread asks; with `now` the thread goes by that time before it answers. */
export interface ThreadAsk {
  readonly id: number;
  readonly now?: number;
}

/** The first message of a thread names its port; every other one answers an ask. */
export type ThreadSays = { readonly port: number } | { readonly id: number };
