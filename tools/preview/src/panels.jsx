import {
  FieldType,
  formattedValueToString,
  getDisplayValueAlignmentFactors,
  getFieldDisplayName,
  getFieldDisplayValues,
} from '@grafana/data';
import { BarGauge, BigValue, TimeSeries } from '@grafana/ui';

import { theme } from './fields';

const label = (field, frame, all) => getFieldDisplayName(field, frame, all);
const numbers = (frame) => frame.fields.filter((field) => field.type === FieldType.number);

function values(panel, data) {
  return getFieldDisplayValues({
    fieldConfig: panel.fieldConfig,
    reduceOptions: panel.options.reduceOptions,
    replaceVariables: (text) => text,
    theme,
    data,
    timeZone: 'utc',
  });
}

function Tiles({ panel, data, width, height }) {
  const found = values(panel, data);
  const each = Math.floor(width / found.length);
  const factors = getDisplayValueAlignmentFactors(found);
  return (
    <div style={{ display: 'flex', gap: 4 }}>
      {found.map(({ display }, index) => (
        <BigValue
          key={index}
          width={each - 4}
          height={height}
          value={panel.options.textMode === 'value' ? { ...display, title: '' } : display}
          colorMode={panel.options.colorMode}
          graphMode="none"
          justifyMode="auto"
          textMode={panel.options.textMode}
          wideLayout
          alignmentFactors={factors}
          theme={theme}
        />
      ))}
    </div>
  );
}

function Bars({ panel, data, width, height }) {
  const found = values(panel, data);
  const each = Math.min(Math.floor(height / found.length), 46);
  return found.map(({ display, field }, index) => (
    <div key={index} style={{ height: each }}>
      <BarGauge
        width={width}
        height={each - 6}
        orientation="horizontal"
        displayMode={panel.options.displayMode}
        field={field}
        value={display}
        display={found[index].view?.getFieldDisplayProcessor?.(found[index].colIndex)}
        alignmentFactors={{ title: 'x'.repeat(Math.max(...found.map((one) => one.display.title.length))), text: '100.00 x' }}
        showUnfilled
        valueDisplayMode="color"
        theme={theme}
        itemSpacing={8}
        lcdCellWidth={12}
      />
    </div>
  ));
}

function Lines({ panel, data, width, height, range }) {
  return (
    <TimeSeries
      frames={data}
      structureRev={1}
      width={width}
      height={height}
      timeRange={range}
      timeZone="utc"
      legend={panel.options.legend}
      options={panel.options}
    />
  );
}

// No panel of Grafana's libraries draws this one.
function Timeline({ data, width, height, range }) {
  const from = range.from.valueOf();
  const to = range.to.valueOf();
  const title = Math.min(130, width * 0.15);
  const row = Math.min(Math.floor((height - 18) / data.length), 34);
  const x = (at) => ((at - from) / (to - from)) * (width - title - 8);
  return (
    <div style={{ position: 'relative', fontSize: 12 }}>
      {data.map((frame, index) => {
        const [times, field] = frame.fields;
        const bars = [];
        const step = Math.min(...times.values.slice(1).map((t, i) => t - times.values[i]));
        times.values.forEach((at, i) => {
          const last = bars[bars.length - 1];
          const lasts = i + 1 < times.values.length ? times.values[i + 1] : to;
          const end = step > 120_000 || times.values.length < 20 ? lasts : Math.min(at + step * 1.5, lasts);
          if (last && last.value === field.values[i] && at <= last.end + 1) last.end = end;
          else bars.push({ value: field.values[i], start: at, end });
        });
        return (
          <div key={index} style={{ height: row }}>
            <span style={{ position: 'absolute', width: title, textAlign: 'right', lineHeight: `${row}px` }}>
              {label(field, frame, data)}
            </span>
            {bars.map(({ value, start, end }, i) => {
              const shown = field.display(value);
              const wide = x(end) - x(start);
              return (
                <div
                  key={i}
                  style={{
                    position: 'absolute', left: title + 8 + x(start), width: Math.max(wide, 1), top: index * row + 2,
                    height: row - 4, background: shown.color, color: '#fff', overflow: 'hidden', lineHeight: `${row - 4}px`,
                    paddingLeft: wide > 60 ? 6 : 0, boxSizing: 'border-box', whiteSpace: 'nowrap',
                  }}
                >
                  {wide > 60 ? formattedValueToString(shown) : ''}
                </div>
              );
            })}
          </div>
        );
      })}
      {[0, 0.25, 0.5, 0.75].map((share) => (
        <span key={share} style={{ position: 'absolute', left: title + 8 + share * (width - title - 8), top: data.length * row, color: '#999' }}>
          {new Date(from + share * (to - from)).toISOString().slice(11, 16)}
        </span>
      ))}
    </div>
  );
}

function sorted(frame, sortBy) {
  const order = [...Array(frame.length).keys()];
  const field = frame.fields.find((one) => one.name === sortBy?.displayName);
  if (!field) return order;
  const key = (i) => field.values[i] ?? -Infinity;
  order.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
  return sortBy.desc ? order.reverse() : order;
}

function Rows({ panel, data }) {
  const [frame] = data;
  const cell = (field, i) => {
    const value = field.values[i];
    if (value === null || value === undefined || value === '') return { text: '' };
    const shown = field.display(value);
    const kind = field.config.custom?.cellOptions?.type;
    const text = field.type === FieldType.time ? new Date(value).toISOString().slice(0, 19).replace('T', ' ') : formattedValueToString(shown);
    if (kind === 'color-background') return { text, style: { background: shown.color, color: '#fff', fontWeight: 500 } };
    if (kind === 'color-text') return { text, style: { color: shown.color } };
    return { text };
  };
  return (
    <table style={{ width: '100%', borderCollapse: 'collapse', fontSize: 13 }}>
      <thead>
        <tr>
          {frame.fields.map((field) => (
            <th key={field.name} style={{ textAlign: field.type === FieldType.number ? 'right' : 'left', padding: '4px 8px', fontWeight: 500, color: '#6e9fff', width: field.config.custom?.width }}>
              {field.name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {sorted(frame, panel.options.sortBy?.[0]).map((i) => (
          <tr key={i} style={{ borderTop: '1px solid #2c3035' }}>
            {frame.fields.map((field) => {
              const { text, style } = cell(field, i);
              const mapped = field.config.mappings?.length;
              return (
                <td key={field.name} style={{ padding: '5px 8px', textAlign: field.type === FieldType.number && !mapped ? 'right' : 'left', ...style }}>
                  {text}
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const KINDS = { stat: Tiles, bargauge: Bars, timeseries: Lines, 'state-timeline': Timeline, table: Rows };

export function Body(props) {
  const Kind = KINDS[props.panel.type];
  const some = props.data.some((frame) => frame.length > 0 && (props.panel.type === 'table' || numbers(frame).length > 0));
  if (!some) return <div style={{ color: '#aaa', textAlign: 'center', paddingTop: props.height / 2 - 20 }}>{props.panel.fieldConfig.defaults.noValue}</div>;
  return <Kind {...props} />;
}
