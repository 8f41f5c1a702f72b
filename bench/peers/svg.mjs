// SPDX-License-Identifier: Apache-2.0
// Bar charts as SVG files that stand alone: readable on light and on dark pages, since they bring
// their own ground and follow the reader's colour scheme.

const WIDTH = 760;
const LABEL = 220; // room for the names
const VALUE = 90; // room for the figures
const BAR = 16;
const GAP = 6;
const TOP = 64;

export const escapeText = (text) => String(text).replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);

const style = `<style>
text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-size:16px;font-weight:600}.note{fill:#59636e}
.ground{fill:#ffffff}.line{stroke:#d1d9e0}.ours{fill:#0b6bcb}.theirs{fill:#8c959f}.ceiling{fill:#d8dee4}.soft{fill-opacity:.5}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}.ground{fill:#0d1117}.line{stroke:#3d444d}
.ours{fill:#4493f8}.theirs{fill:#6e7681}.ceiling{fill:#30363d}}
</style>`;

/**
 * A bar that ends in an arrow is longer than there is room.
 * title, note: texts. series: names of the bars in each group, the second drawn fainter.
 * rows: {label, kind: 'ours' | 'theirs' | 'ceiling', values: [number | null, …]}; a row without any
 * value is left out. format: number => text.
 */
export function barChart({ title, note, series, rows, format }) {
  const shown = rows.filter((row) => row.values.some((value) => value > 0));
  // The ceiling may be far above all others; it does not set the scale unless it is alone.
  const below = shown.filter((row) => row.kind !== 'ceiling');
  const max = Math.max(1, ...(below.length > 0 ? below : shown).flatMap((row) => row.values.filter((value) => value > 0)));
  const scale = (WIDTH - LABEL - VALUE) / max;
  const parts = [];
  let y = TOP;
  for (const row of shown) {
    const bars = row.values.map((value, i) => [value, i]).filter(([value]) => value > 0);
    const height = bars.length * (BAR + 2) - 2;
    parts.push(`<text x="${LABEL - 10}" y="${y + height / 2 + 4.5}" text-anchor="end">${escapeText(row.label)}</text>`);
    bars.forEach(([value, i], line) => {
      const width = Math.max(1, Math.min(value, max) * scale).toFixed(1);
      const at = y + line * (BAR + 2);
      parts.push(`<rect class="${row.kind}${i > 0 ? ' soft' : ''}" x="${LABEL}" y="${at}" width="${width}" height="${BAR}" rx="2"/>`);
      parts.push(`<text class="note" x="${(LABEL + Number(width) + 6).toFixed(1)}" y="${at + BAR - 3.5}">${escapeText(format(value))}${value > max ? ' →' : ''}</text>`);
    });
    y += height + GAP;
  }
  const height = y + 14;
  const legend = series.length > 1 ? ` Full colour: ${series[0]}; faint: ${series[1]}.` : '';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escapeText(title)}">
${style}
<rect class="ground" width="${WIDTH}" height="${height}" rx="6"/>
<text class="title" x="16" y="27">${escapeText(title)}</text>
<text class="note" x="16" y="47">${escapeText(note + legend)}</text>
<path class="line" d="M${LABEL} ${TOP - 6}V${y}"/>
${parts.join('\n')}
</svg>
`;
}
