// The part of Grafana's registry of field options that our dashboards use.
import {
  FieldConfigOptionsRegistry,
  applyFieldOverrides,
  createTheme,
  standardEditorsRegistry,
  standardFieldConfigEditorRegistry,
} from '@grafana/data';

const item = (id, path, isCustom = false) => ({
  id,
  path,
  name: id,
  isCustom,
  editor: () => null,
  override: () => null,
  process: (value) => value,
  shouldApply: () => true,
  settings: {},
});

const STANDARD = ['unit', 'decimals', 'mappings', 'thresholds', 'color', 'links', 'noValue', 'min', 'max', 'displayName'];
const CUSTOM = [
  'align', 'axisPlacement', 'axisSoftMax', 'axisSoftMin', 'cellOptions', 'drawStyle', 'fillOpacity', 'gradientMode',
  'hideFrom', 'lineInterpolation', 'lineStyle', 'lineWidth', 'showPoints', 'spanNulls', 'thresholdsStyle', 'width',
];
const registry = new FieldConfigOptionsRegistry(() => [
  ...STANDARD.map((name) => item(name, name)),
  ...CUSTOM.map((name) => item(`custom.${name}`, name, true)),
]);
standardEditorsRegistry.setInit(() => []);
standardFieldConfigEditorRegistry.setInit(() => STANDARD.map((name) => item(name, name)));

export const theme = createTheme({ colors: { mode: 'dark' } });

export function dressed(panel, data) {
  const fieldConfig = structuredClone(panel.fieldConfig);
  // What Grafana's panels assume where nothing is said.
  const custom = { axisPlacement: 'auto', lineInterpolation: 'linear', gradientMode: 'none', align: 'auto' };
  fieldConfig.defaults.custom = { ...custom, ...fieldConfig.defaults.custom };
  for (const step of fieldConfig.defaults.thresholds?.steps ?? []) step.value ??= -Infinity;
  for (const override of fieldConfig.overrides)
    for (const { id, value } of override.properties)
      if (id === 'thresholds') for (const step of value.steps) step.value ??= -Infinity;
  fieldConfig.defaults.links = [];
  for (const override of fieldConfig.overrides)
    override.properties = override.properties.filter(({ id }) => id !== 'links');
  return applyFieldOverrides({
    data,
    fieldConfig,
    replaceVariables: (text) => text,
    theme,
    timeZone: 'utc',
    fieldConfigRegistry: registry,
  });
}
