/** A promise of the contract that cannot be kept on one server, because that server does what AWS does not. */
export interface Exclusion {
  readonly peer: string;
  /** As `contract.peers.ts` names the kind of store; absent = on all that have the case. */
  readonly on?: string;
  /** The case by its name. */
  readonly name: string;
  /** What the server does, and what AWS documents. Written out in docs/emulator-differences.md. */
  readonly why: string;
  /** What the failure says there. A case that fails in another way, or passes, fails the run: the list cannot outlive its reasons. */
  readonly fails: RegExp;
}

const TOTAL_CAP = 'field case 30: a lease beyond the total cap is refused, and the message comes back at the cap';

export const EXCLUSIONS: readonly Exclusion[] = [
  {
    peer: 'elasticmq',
    name: TOTAL_CAP,
    why: 'it knows no 12-hour limit, which AWS documents and the driver keeps by itself',
    fails: /'done'/,
  },
  {
    peer: 'localstack',
    name: TOTAL_CAP,
    why: 'it knows no 12-hour limit, which AWS documents and the driver keeps by itself',
    fails: /'done'/,
  },
  {
    peer: 'localstack',
    on: 'a FIFO queue that gives a message up after 4 receives',
    name: 'field case 6: where stale handles are not detected, one is answered without an error and the answer proves nothing',
    why: 'a stale release takes the message from its holder, whose delete is then refused as expired',
    fails: /nothing may be handed out after the current owner completed the message/,
  },
];
