import { explore, type Exploration, type Progress } from './explore.ts';
import { createModel, type Model, type Scene } from './model.ts';
import { INVARIANTS, RULE_NAMES, RULES, type ReceiverKind, type Rule, type RuleName } from './rules.ts';
import { searchWithout } from './search.ts';
import { describePath } from './trace.ts';
import { commandOptions } from '../command-options.ts';

const USAGE = `Checks the protocol, as docs/model.md describes it.

npm run model                             all receivers with 0, 1, 2, ... faults, until --states are visited
npm run model -- --states 50000000        another bound (default 20000000)
npm run model -- --faults 3               one number of faults, without a bound unless --states is given
npm run model -- --receiver plain         one receiver: guarded, transactional or plain
npm run model -- --without guard-fence    the shortest counterexample without a rule; "all" for a line per rule
npm run model -- --json                   one JSON object per exploration
`;
const DEFAULT_STATES = 20_000_000;
/** What a state can count. */
const MOST_FAULTS = 7;
const RECEIVERS: readonly ReceiverKind[] = ['guarded', 'transactional', 'plain'];
const PROGRESS_EVERY_MS = 2_000;

const values = commandOptions(USAGE, {
  states: { type: 'string' },
  faults: { type: 'string' },
  receiver: { type: 'string' },
  without: { type: 'string' },
  json: { type: 'boolean', default: false },
});

process.exitCode = main();

function main(): number {
  const receivers = values.receiver === undefined ? RECEIVERS : RECEIVERS.filter((name) => name === values.receiver);
  const rules = values.without === 'all' ? RULE_NAMES : RULE_NAMES.filter((name) => name === values.without);
  const faults = values.faults === undefined ? undefined : Number(values.faults);
  const states = values.states === undefined ? undefined : Number(values.states);
  const fits = receivers.length > 0 && (values.without === undefined || rules.length > 0);
  if (
    !fits ||
    (faults !== undefined && !(Number.isInteger(faults) && faults >= 0 && faults <= MOST_FAULTS)) ||
    (states !== undefined && !(states > 0))
  ) {
    print(USAGE);
    if (values.without !== undefined) print(`\nRules: ${RULE_NAMES.join(', ')}\n`);
    return 2;
  }
  if (rules.length > 0) return withoutRules(rules);
  return withAllRules(receivers, faults, states ?? (faults === undefined ? DEFAULT_STATES : Number.POSITIVE_INFINITY));
}

function withAllRules(receivers: readonly ReceiverKind[], only: number | undefined, most: number): number {
  let visited = 0;
  const last = only ?? MOST_FAULTS;
  for (let faults = only ?? 0; faults <= last && visited < most; faults++) {
    for (const receiver of receivers) {
      if (visited >= most) break;
      const scene: Scene = { receiver, faults };
      const model = createModel(scene);
      const startedAt = performance.now();
      const exploration = explore(model, most - visited, progressOf(scene, startedAt));
      visited += exploration.states;
      report(model, exploration, performance.now() - startedAt);
      if (exploration.violation) return 1;
    }
  }
  if (!values.json) print(`${count(visited)} states in all; no invariant broken.\n`);
  return 0;
}

/** A rule without which nothing breaks is one that the model does not show to be needed. */
function withoutRules(names: readonly RuleName[]): number {
  let missing = 0;
  for (const name of names) {
    const startedAt = performance.now();
    const { model, exploration } = searchWithout(name);
    if (!exploration.violation) missing += 1;
    if (values.json || names.length === 1) report(model, exploration, performance.now() - startedAt);
    else {
      const { violation } = exploration;
      const found = violation
        ? `${violation.invariant}, ${model.scene.faults} faults, ${violation.path.length - 1} steps`
        : 'nothing breaks';
      print(`${name.padEnd(34)}${found}\n`);
    }
  }
  return missing === 0 ? 0 : 1;
}

function report(model: Model, exploration: Exploration, ms: number): void {
  const { scene } = model;
  const { violation, states, steps, depth, bytes, complete } = exploration;
  const trace = violation && describePath(model, violation.path);
  if (values.json) {
    const found = violation && { invariant: violation.invariant, means: INVARIANTS[violation.invariant], trace };
    print(
      `${JSON.stringify({ ...scene, states, steps, depth, bytes, complete, seconds: ms / 1000, ...(found && { violation: found }) })}\n`,
    );
    return;
  }
  const end = violation ? `breaks ${violation.invariant}` : complete ? 'complete' : 'bound reached, I5 not judged';
  print(
    `${titleOf(scene)}: ${count(states)} states, ${count(steps)} steps, depth ${depth}, ${(ms / 1000).toFixed(1)} s, ${megabytes(bytes)}: ${end}\n`,
  );
  if (!violation || !trace) return;
  if (scene.without) {
    const rule: Rule = RULES[scene.without];
    print(`\nThe rule: ${rule.rule}. Without it: ${rule.without}.\n`);
  }
  print(`${violation.invariant}: ${INVARIANTS[violation.invariant]}.\n\n${trace.join('\n')}\n`);
  if (violation.invariant === 'I5') print('    From here no run without further faults comes to an end.\n');
}

function progressOf(scene: Scene, startedAt: number): (progress: Progress) => void {
  let toldAt = startedAt;
  return ({ states, frontier, depth, bytes }) => {
    const now = performance.now();
    if (values.json || now - toldAt < PROGRESS_EVERY_MS) return;
    toldAt = now;
    const speed = (states / (now - startedAt)) * 1000;
    print(
      `  ${titleOf(scene)}: ${count(states)} states, ${count(frontier)} waiting, depth ${depth}, ${count(Math.round(speed))}/s, ${megabytes(bytes)}\n`,
    );
  };
}

function titleOf({ receiver, faults, without }: Scene): string {
  return `${receiver} receiver, ${faults} ${faults === 1 ? 'fault' : 'faults'}${without === undefined ? '' : `, without ${without}`}`;
}

function count(number: number): string {
  return number.toLocaleString('en').replaceAll(',', ' ');
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1e6)} MB`;
}

function print(text: string): void {
  process.stdout.write(text);
}
