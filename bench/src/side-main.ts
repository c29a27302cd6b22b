import { answerParent } from './child-answers.ts';
import type { Side, SideOptions } from './side.ts';
import { SIDES } from './sides/index.ts';

let side: Side | undefined;

function opened(): Side {
  if (!side) throw new Error('no side was opened');
  return side;
}

answerParent({
  async open(name: string, options: SideOptions) {
    const load = SIDES[name];
    if (!load) throw new Error(`there is no side ${name}`);
    side = await load(options);
  },
  fill: (count: number) => opened().fill(count),
  run: (count: number) => opened().run(count),
  close: () => opened().close(),
});
