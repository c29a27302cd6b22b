/** What the model checks. The number is what a state remembers of a broken one. */
export const INVARIANTS = {
  I1: 'tokens of a task strictly increase; no two grants share one',
  I2: 'at most one settle is accepted',
  I3: 'after a refused write an owner writes nothing and starts nothing; a guarded receiver refuses its call once it was shown a higher token',
  I4: 'no effect happens twice',
  I5: 'from every state, without further faults, the task ends (or waits for a person) and its message is acknowledged or dead-lettered',
  I6: 'no irreversible step starts unless ownership is held and really held: confirmed time never exceeds the lease',
  I7: 'an owner’s write is accepted only while its lease is live, and grants no more than first sending + L',
  One: 'nobody is granted the task while the lease of another is live, and nobody gives it back while a call of its own is open',
  Close:
    'no terminal record holds an intended effect, none that is cancelled a verified one, and what it calls absent or does not mention never happens afterwards',
  Attempts: 'beyond the limit of failures a grant only closes',
  Loss: 'an owner that is told it lost the task has lost it',
  Receipt: 'a settled task’s effect exists',
  Ended: 'a dead-lettered task runs again only by a message from the dead-letter queue',
  Follow: 'follow-ups are sent only of a settled task',
} as const;
export type Invariant = keyof typeof INVARIANTS;
export const INVARIANT_NAMES: readonly Invariant[] = Object.keys(INVARIANTS) as Invariant[];

export type ReceiverKind = 'guarded' | 'transactional' | 'plain';

/** A rule of the protocol, what is done without it, and what that breaks. */
export interface Rule {
  readonly rule: string;
  readonly without: string;
  readonly breaks: Invariant;
  /** The receiver at which it shows. */
  readonly receiver?: ReceiverKind;
}

/** The rules that can be switched off, by name. */
export const RULES = {
  'version-check': {
    rule: 'a write expects the version that its writer saw',
    without: 'the store checks only the lease',
    breaks: 'I1',
  },
  'live-check': {
    rule: 'renew, intend, settle and every other write of an owner expect a live lease',
    without: 'they expect only the version',
    breaks: 'I7',
  },
  'safe-end': {
    rule: 'a lease is live by the latest possible now and over by the earliest',
    without: 'the store takes whatever its clock says',
    breaks: 'I7',
  },
  'not-beyond': {
    rule: 'an expiry is stamped at most L after the first sending of the write',
    without: 'it is stamped L after its arrival',
    breaks: 'I7',
  },
  'first-sending': {
    rule: 'confirmed time counts from the first sending of the write',
    without: 'it counts from the answer',
    breaks: 'I6',
  },
  sleep: {
    rule: 'after a sleep of the machine ownership is unknown until one confirmation',
    without: 'the monotonic clock is believed',
    breaks: 'I6',
  },
  'token-plus-one': { rule: 'every grant takes token + 1', without: 'a grant keeps the token', breaks: 'I1' },
  busy: {
    rule: 'a delivery of a task under a live lease is parked',
    without: 'it is claimed and run',
    breaks: 'One',
  },
  replay: {
    rule: 'a delivery of a settled task is acknowledged, never run',
    without: 'it is claimed and run',
    breaks: 'I2',
  },
  'claim-examines': {
    rule: 'a claim examines failures and cancellation, and closes instead of running',
    without: 'only an owner that lives to release counts',
    breaks: 'Attempts',
  },
  'own-writes': {
    rule: 'a refused writer recognises its own earlier write and goes on from it',
    without: 'every refusal is a loss',
    breaks: 'Loss',
  },
  'foreign-writes': {
    rule: 'only a record under one’s own token is one’s own',
    without: 'any running record is taken for one’s own',
    breaks: 'I3',
  },
  'loss-is-final': {
    rule: 'a refused owner stops',
    without: 'it goes on with what it knew',
    breaks: 'I3',
  },
  'unanswered-is-unknown': {
    rule: 'an unanswered write is remembered: ownership is unknown',
    without: 'it is forgotten',
    breaks: 'I6',
  },
  'intent-first': {
    rule: 'the intent is written before the call',
    without: 'the call is made at once',
    breaks: 'I6',
  },
  'held-after-intent': {
    rule: 'the call starts only if the lease is held once the intent is confirmed',
    without: 'the confirmed intent is enough',
    breaks: 'I6',
  },
  'fresh-intent': {
    rule: 'waiting for the lease to be held again ends with the time that the intent confirmed',
    without: 'the call starts whenever the lease is held again',
    breaks: 'I4',
    receiver: 'plain',
  },
  'read-back-first': {
    rule: 'an effect intended by any attempt is read back first',
    without: 'it is committed again',
    breaks: 'I4',
    receiver: 'plain',
  },
  verify: {
    rule: 'a call is read back before the task settles',
    without: 'the end of the call is enough',
    breaks: 'Receipt',
  },
  quiesce: {
    rule: 'at an unguarded receiver "absent" counts only once older calls must have ended',
    without: '"absent" counts at once',
    breaks: 'I4',
    receiver: 'plain',
  },
  'fenced-read-back': {
    rule: 'a read-back shows the receiver the fence',
    without: 'it only asks for the key',
    breaks: 'Close',
  },
  'guard-fence': {
    rule: 'the guard refuses a token below the highest it was shown',
    without: 'it checks only the key',
    breaks: 'I3',
  },
  'guard-key': {
    rule: 'the guard answers a known key with the stored response',
    without: 'it checks only the fence',
    breaks: 'I4',
  },
  'hold-in-doubt': {
    rule: 'a hold that expired is in doubt, and resolved before the key runs again',
    without: 'it is as if the key were new',
    breaks: 'I4',
  },
  'close-first': {
    rule: 'a task with an open effect is closed: read back before it ends',
    without: 'it is dead-lettered at once',
    breaks: 'Close',
  },
  'close-takes-token': {
    rule: 'closing takes a new token before it reads back',
    without: 'it reads back under its own',
    breaks: 'Close',
  },
  'cancel-asks': {
    rule: 'cancelling a task with an open effect is a request to close it',
    without: 'it is cancelled at once',
    breaks: 'Close',
  },
  'release-after-calls': {
    rule: 'a task is given back only after every outside call has ended',
    without: 'it is given back at once',
    breaks: 'One',
  },
  'settle-wins': {
    rule: 'a task whose effect is verified is not cancelled any more',
    without: 'it is cancelled',
    breaks: 'Close',
  },
  'settle-first': {
    rule: 'the message is acknowledged after the settle',
    without: 'it is acknowledged before',
    breaks: 'I5',
  },
  'settle-answered': {
    rule: 'after an unanswered settle nothing is acknowledged',
    without: 'the message is acknowledged all the same',
    breaks: 'I5',
  },
  'busy-kept': {
    rule: 'a message of a busy task is kept until the task is settled or lapses',
    without: 'it is acknowledged as a duplicate',
    breaks: 'I5',
  },
  'ledger-first': {
    rule: 'the record is dead-lettered before the message',
    without: 'the message is moved first',
    breaks: 'I5',
    receiver: 'transactional',
  },
  'bury-takes-token': {
    rule: 'dead-lettering by one who holds no lease takes a new token',
    without: 'the token stays',
    breaks: 'Ended',
  },
  'dead-rejected': {
    rule: 'a delivery of a dead-lettered task goes to the dead-letter queue again',
    without: 'it is acknowledged',
    breaks: 'I5',
  },
  'follow-ups-last': {
    rule: 'follow-ups are sent after the settle',
    without: 'they are sent when the handler returns',
    breaks: 'Follow',
  },
  'follow-ups-before-acknowledging': {
    rule: 'a replay, too, sends the follow-ups before it acknowledges',
    without: 'a replay only acknowledges',
    breaks: 'I5',
  },
  'sweep-minds-follow-ups': {
    rule: 'a settled task whose message the broker dead-lettered still gets its follow-ups sent',
    without: 'a sweep looks only at tasks that have not ended',
    breaks: 'I5',
    receiver: 'transactional',
  },
} as const satisfies Readonly<Record<string, Rule>>;
export type RuleName = keyof typeof RULES;
export const RULE_NAMES: readonly RuleName[] = Object.keys(RULES) as RuleName[];
