// Draws one dashboard from its JSON and the answers to its questions: index.html?NAME.
import { ThemeContext, dateTime } from '@grafana/data';
import { GlobalStyles, PortalContainer } from '@grafana/ui';
import { createRoot } from 'react-dom/client';

import { dressed, theme } from './fields';
import { frames } from './frames';
import { Body } from './panels';

const WIDTH = 1500 - 16;
const ROW = 38;

function Panel({ panel, answers, range, top }) {
  const { x, y, w, h } = panel.gridPos;
  const box = { left: (x * WIDTH) / 24, top: top + y * ROW, width: (w * WIDTH) / 24 - 8, height: h * ROW - 8 };
  const inner = { width: box.width - 18, height: box.height - 38 };
  const data = dressed(panel, frames(panel, answers[panel.id] ?? []));
  return (
    <div style={{ position: 'absolute', ...box, background: '#181b1f', border: '1px solid #2c3035', borderRadius: 2, overflow: 'hidden' }}>
      <div style={{ padding: '6px 8px', fontSize: 14, fontWeight: 500 }}>{panel.title}</div>
      <div style={{ padding: '0 8px' }}>
        <Body panel={panel} data={data} range={range} {...inner} />
      </div>
    </div>
  );
}

// As in Grafana, what is below a folded row moves up; "&all" draws the rows unfolded.
function laid(panels) {
  const all = location.search.includes('&all');
  let hidden = 0;
  return panels.flatMap((panel) => {
    const placed = { ...panel, gridPos: { ...panel.gridPos, y: panel.gridPos.y - hidden } };
    if (panel.type !== 'row') return [placed];
    if (all) return [placed, ...panel.panels];
    const bottom = Math.max(...panel.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
    hidden += bottom - panel.gridPos.y - panel.gridPos.h;
    return [placed];
  });
}

function Board({ document, answers, range, variables }) {
  const times = { from: dateTime(range.from), to: dateTime(range.to), raw: { from: 'now-6h', to: 'now' } };
  const choices = document.templating.list.map((one) => `${one.label}: ${variables[one.name] ?? one.current.text}`);
  return (
    <div style={{ position: 'relative', padding: 8, color: '#ccccdc', fontFamily: 'Inter, Helvetica, Arial, sans-serif' }}>
      <div style={{ fontSize: 18, fontWeight: 500, height: 46, lineHeight: '32px' }}>
        {document.title}
        {choices.map((text) => (
          <span key={text} style={{ fontSize: 12, fontWeight: 400, marginLeft: 16, padding: '4px 8px', border: '1px solid #3b3f45', borderRadius: 2 }}>{text}</span>
        ))}
        <span style={{ position: 'absolute', right: 12, fontSize: 12, color: '#8e8e9a' }}>preview, simulated servers</span>
      </div>
      {laid(document.panels).map((panel) =>
        panel.type === 'row' ? (
          <div key={panel.id} style={{ position: 'absolute', left: 8, top: 54 + panel.gridPos.y * ROW, fontSize: 15 }}>
            › {panel.title} <span style={{ color: '#8e8e9a' }}>({panel.panels.length} panels)</span>
          </div>
        ) : (
          <Panel key={panel.id} panel={panel} answers={answers} range={times} top={54} />
        )
      )}
    </div>
  );
}

const board = await (await fetch(`/${location.search.slice(1).split('&')[0]}.json`)).json();
// Ages are those at the end of the pictured time.
const now = Date.now;
const since = now() - board.range.to;
Date.now = () => now() - since;
document.body.style.background = '#111217';
createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <Board {...board} />
    <PortalContainer />
  </ThemeContext.Provider>
);
