import { html } from 'hono/html';
import type { z } from 'zod';
import { DAYS } from '../src/domain/quiet-hours.ts';
import { fieldsOf, type FieldOf, type Given } from '../src/operations/fields.ts';
import type { FormValues } from '../src/operations/operation.ts';
import type { Html } from './layout.ts';

// Makes forms from the fields of operations, and reads what the forms send.

/** The fields of a form. An optional empty field counts as not given. Unknown names are kept, so that they are refused. */
export function givenIn(schema: { readonly fields: z.ZodObject }, form: URLSearchParams): Given {
  const fields = new Map(fieldsOf(schema).map((field) => [field.name, field]));
  const given: Record<string, unknown> = {};
  for (const name of new Set([...form.keys(), ...fields.keys()])) {
    const { kind, isExact, isOptional = true } = fields.get(name) ?? {};
    const texts = form.getAll(name).map((value) => (isExact === true ? value : value.trim()));
    const [first = ''] = texts;
    if (first === '' && isOptional) continue;
    given[name] = kind === 'flag' ? ['true', 'yes'].includes(first) : texts.length > 1 ? texts : first;
  }
  return given;
}

export function fieldHtml({ name, label, description, kind, isOptional }: FieldOf, values: FormValues): Html {
  const value = values[name] ?? '';
  if (kind === 'days') {
    return html`<fieldset class="field">
      <legend>${label}</legend>
      ${DAYS.map(
        (day) =>
          html`<label class="day"
            ><input type="checkbox" name="${name}" value="${day}" ${value.includes(day) ? 'checked' : ''} />
            ${day}</label
          >`,
      )}
    </fieldset>`;
  }
  if (kind !== undefined && kind !== 'time' && kind !== 'argument') return html``;
  const [type, required] = [kind === 'time' ? kind : 'text', isOptional ? '' : 'required'];
  return html`<label class="field"
    ><span>${label}</span>
    <input name="${name}" type="${type}" value="${value}" maxlength="500" ${required} />
    <span class="hint">${description}</span></label
  >`;
}
