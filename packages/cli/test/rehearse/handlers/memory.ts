/** What the handlers of one process have done. */
export const seen: Set<string> = new Set();
