import { z } from 'zod';
import { printable } from '../domain/faults.ts';
import { parseObject } from '../domain/json.ts';
import { noteKey } from '../queue/names.ts';
import { instant } from '../terminal/text.ts';
import { textField } from './common-fields.ts';
import { defineOperation, type Kept } from './operation.ts';

/** A note that is not written again is removed after this. */
const KEPT_S = 366 * 86_400;

/** An operator's note about a recipient, for other operators. */
export const note = defineOperation({
  ...{ name: 'note', title: 'Note', scope: 'operate', done: 'the note is stored', isGentle: true },
  does: 'Notes something about this recipient, which is shown with it.',
  help: `
One note, which replaces an earlier one. It is kept for a year. Nothing that waits moves.`,
  hint: 'Shown with the recipient, to all who may look. It replaces an earlier note.',
  answers: ['note', 'wasNoted'],
  fields: z.strictObject({
    text: textField({ label: 'Text', value: 'text', kind: 'argument', description: 'for people to read' }),
  }),
  isOffered: () => true,
  async kept(recipientId, { connection, prefix }): Promise<Kept | undefined> {
    const stored = await connection.get(noteKey(prefix, recipientId));
    if (stored === null) return undefined;
    const { text, by, at } = parseObject(stored);
    const said = `${String(text)} (${String(by)}, ${instant(Number(at))})`;
    return { label: 'Note', text: printable(said), fields: { note: { text, by, at } } };
  },
  plan: ({ text }, { recipientId, now }) => ({
    deed: {
      kind: 'own',
      async run({ connection, prefix }, by) {
        const value = JSON.stringify({ text, by, at: now });
        return (await connection.set(noteKey(prefix, recipientId), value, 'EX', KEPT_S, 'GET')) !== null;
      },
    },
    settled: { text },
    would: `It is noted: ${text}`,
    did: ({ wasThere }) => ({
      text: `noted about ${printable(recipientId)}${wasThere ? ', in place of the note before' : ''}: ${text}`,
      ...{ fields: { note: text, wasNoted: wasThere }, isShort: true },
    }),
  }),
});

export const unnote = defineOperation({
  ...{ name: 'unnote', title: 'Remove the note', scope: 'operate', done: 'there is no note', isGentle: true },
  does: 'Removes the note about this recipient.',
  ...{ help: '', hint: 'The note is shown no longer.', answers: ['wasNoted'] },
  flagOf: { operation: 'note', flag: '--clear', does: 'remove the note' },
  fields: z.strictObject({}),
  isOffered: (_, kept) => kept.some(({ fields }) => 'note' in fields),
  plan: (_, { recipientId }) => ({
    deed: {
      kind: 'own',
      run: async ({ connection, prefix }) => (await connection.del(noteKey(prefix, recipientId))) > 0,
    },
    settled: {},
    would: 'The note is removed.',
    did: ({ wasThere }) => ({
      text: `${printable(recipientId)} has no note ${wasThere ? 'any more' : 'and had none'}`,
      ...{ fields: { wasNoted: wasThere }, isShort: true },
    }),
  }),
});
