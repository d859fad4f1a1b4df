// From answers to data frames, as Grafana's datasources and transformations would make them.
import { FieldType, createDataFrame } from '@grafana/data';

const fillLegend = (legend, labels) =>
  (legend || '{{__name__}}').replace(/\{\{(\w+)\}\}/g, (_, name) => labels[name] ?? '').trim();

function seriesFrame(name, labels, points) {
  const field = { name: 'Value', type: FieldType.number, values: points.map((p) => p[1]), labels };
  field.config = { displayNameFromDS: name };
  const time = { name: 'Time', type: FieldType.time, values: points.map((p) => p[0] * 1000), config: {} };
  return createDataFrame({ name, fields: [time, field] });
}

function metrics(answer) {
  const column = (name) => answer.names.indexOf(name);
  const groups = new Map();
  for (const row of answer.rows) {
    const name = String(row[column('metric')]);
    const at = row[column('time')];
    const time = typeof at === 'number' ? at : Date.parse(at) / 1000;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push([time, row[column('value')]]);
  }
  return [...groups].map(([name, points]) => seriesFrame(name, { metric: name }, points));
}

// "merge" and "organize": one row for each set of labels, a column for each query.
function merged(answers, organize) {
  const rows = new Map();
  for (const answer of answers) {
    for (const { labels, points } of answer.series) {
      const value = answers.length > 1 ? `Value #${answer.ref}` : 'Value';
      let found = [...rows.values()].find((row) =>
        Object.entries(labels).every(([k, v]) => row.labels[k] === undefined || row.labels[k] === v)
      );
      if (!found) rows.set(rows.size, (found = { labels: {}, values: {} }));
      Object.assign(found.labels, labels);
      found.values[value] = points[0][1];
    }
  }
  const order = Object.entries(organize.indexByName).sort((a, b) => a[1] - b[1]);
  const all = [...rows.values()];
  const fields = order.map(([source]) => {
    const numeric = source.startsWith('Value');
    const values = all.map((row) => (numeric ? row.values[source] ?? null : row.labels[source] ?? ''));
    const type = numeric ? FieldType.number : FieldType.string;
    return { name: organize.renameByName[source] ?? source, type, values, config: {} };
  });
  return [createDataFrame({ fields })];
}

function rowsFrame(answer) {
  const fields = answer.names.map((name, index) => {
    const values = answer.rows.map((row) => row[index]);
    const some = values.find((value) => value !== null && value !== undefined);
    let type = FieldType.string;
    if (typeof some === 'number') type = FieldType.number;
    if (typeof some === 'boolean') type = FieldType.boolean;
    // Exact numbers come as text.
    if (typeof some === 'string' && /^-?\d+(\.\d+)?$/.test(some)) type = FieldType.number;
    if (typeof some === 'string' && /^\d{4}-\d\d-\d\d /.test(some)) type = FieldType.time;
    const read = { [FieldType.time]: (v) => v && Date.parse(v), [FieldType.number]: (v) => (v === null ? v : Number(v)) };
    return { name, type, values: values.map(read[type] ?? ((v) => v)), config: {} };
  });
  return createDataFrame({ fields });
}

export function frames(panel, answers) {
  if (!answers.length) return [];
  if (answers[0].shape === 'rows') return [rowsFrame(answers[0])];
  if (answers[0].shape === 'metrics') return answers.flatMap(metrics);
  const organize = (panel.transformations ?? []).find((one) => one.id === 'organize');
  if (organize) return merged(answers, organize.options);
  return answers.flatMap((answer) =>
    answer.series.map(({ labels, points }) => seriesFrame(fillLegend(answer.legend, labels), labels, points))
  );
}
