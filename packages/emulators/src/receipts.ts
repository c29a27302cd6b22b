// Older ones are forgotten: to the rules they are garbage then.
const KEPT = 100_000;

interface Receipt {
  readonly messageId: string;
  readonly receivedAt: number;
  lapsesAt: number;
  deleted: boolean;
}

/** What a receipt handle is worth. `older`: the message was received again since. `lapsed`: its time is over, nobody has it yet. */
export type Standing = 'live' | 'lapsed' | 'older' | 'deleted' | 'unknown';

/** The receipt handles of one queue, learned from what passes by. */
export class Receipts {
  visibilityMs = 30_000;
  readonly #receipts = new Map<string, Receipt>();
  readonly #newest = new Map<string, string>();

  received(messageId: string, handle: string, now: number, visibilityMs: number): void {
    this.#receipts.set(handle, { messageId, receivedAt: now, lapsesAt: now + visibilityMs, deleted: false });
    this.#newest.set(messageId, handle);
    for (const [oldest, { messageId: id }] of this.#receipts) {
      if (this.#receipts.size <= KEPT) break;
      this.#receipts.delete(oldest);
      if (this.#newest.get(id) === oldest) this.#newest.delete(id);
    }
  }

  standing(handle: string, now: number): Standing {
    const receipt = this.#receipts.get(handle);
    if (!receipt) return 'unknown';
    if (receipt.deleted) return 'deleted';
    const newest = this.#newest.get(receipt.messageId);
    if (newest !== handle) return newest !== undefined && this.#receipts.get(newest)?.deleted ? 'deleted' : 'older';
    return receipt.lapsesAt <= now ? 'lapsed' : 'live';
  }

  receivedAt(handle: string): number | undefined {
    return this.#receipts.get(handle)?.receivedAt;
  }

  changed(handle: string, lapsesAt: number): void {
    const receipt = this.#receipts.get(handle);
    if (receipt) receipt.lapsesAt = lapsesAt;
  }

  deleted(handle: string): void {
    const receipt = this.#receipts.get(handle);
    if (receipt) receipt.deleted = true;
  }

  forget(): void {
    this.#receipts.clear();
    this.#newest.clear();
  }
}
