import { goalText, short, type Figure } from './figures.ts';

const WIDTH = 760;
const ROW = 46;
const LEFT = 330;
const TOP = 64;

/** One bar per figure: what is held against the goal, with the goal as a line across its bar and the spread of the rounds as a whisker. */
export function chart(title: string, figures: readonly Figure[]): string {
  const scaled = figures.map((figure) => {
    const goal = 'atLeast' in figure.goal ? figure.goal.atLeast : figure.goal.atMost;
    return { figure, goal, most: Math.max(figure.ratio, goal, figure.spread?.[1] ?? 0, Number.MIN_VALUE) };
  });
  const height = TOP + figures.length * ROW + 24;
  const room = WIDTH - LEFT - 90;
  const bars = scaled.map(({ figure, goal, most }, index) => {
    const y = TOP + index * ROW;
    // Figures of different units stand side by side: each has its own scale.
    const at = (value: number): number => LEFT + (Math.max(0, value) / most) * room;
    const whisker = figure.spread
      ? `<line x1="${at(figure.spread[0]).toFixed(1)}" x2="${at(figure.spread[1]).toFixed(1)}" y1="${y + 12}" y2="${y + 12}" class="spread"/>`
      : '';
    return `<g>
<text x="${LEFT - 12}" y="${y + 10}" class="name">${escape(figure.id)}</text>
<text x="${LEFT - 12}" y="${y + 25}" class="title">${escape(figure.title.slice(0, 58))}</text>
<rect x="${LEFT}" y="${y}" width="${(at(figure.ratio) - LEFT).toFixed(1)}" height="24" class="${figure.met ? 'met' : 'missed'}"/>
${whisker}
<line x1="${at(goal).toFixed(1)}" x2="${at(goal).toFixed(1)}" y1="${y - 4}" y2="${y + 28}" class="goal"/>
<text x="${(at(most) + 8).toFixed(1)}" y="${y + 11}" class="value">${short(figure.ratio)}</text>
<text x="${(at(most) + 8).toFixed(1)}" y="${y + 25}" class="title">${escape(goalText(figure.goal))}</text>
</g>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" font-family="system-ui, sans-serif">
<style>
.bg { fill: #ffffff } .head { font-size: 16px; fill: #1b1f24 } .name { font-size: 13px; fill: #1b1f24; text-anchor: end }
.title { font-size: 10.5px; fill: #59636e } .name + .title { text-anchor: end } .value { font-size: 13px; fill: #1b1f24 }
.met { fill: #2f7d5b } .missed { fill: #c2571a } .spread { stroke: #1b1f24; stroke-opacity: 0.55; stroke-width: 2 }
.goal { stroke: #1b1f24; stroke-width: 2; stroke-dasharray: 4 3 }
</style>
<rect class="bg" width="${WIDTH}" height="${height}"/>
<text x="16" y="28" class="head">${escape(title)}</text>
<text x="16" y="46" class="title">bar: the figure; dashed line: its goal; thin line: lowest and highest round. Each bar has its own scale.</text>
${bars.join('\n')}
</svg>
`;
}

function escape(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
