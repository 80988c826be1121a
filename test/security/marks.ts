/** What must not be seen anywhere: long enough, and odd enough, that no part of it is there by chance. */
export const MARKS = {
  title: 'Zahnarzt „Quittenbaum" hat angerufen',
  body: 'Das Losungswort lautet Schlüsselblume & Wacholderheide 4711/7',
  data: 'Kontostand: -98.765,43 € <Sparbuch>',
  apnsToken: 'b0bacafe5eed1e55'.repeat(4),
  fcmToken: 'fQz9xW7kRt2:APA91bVerschwiegenheitserklaerung_Pfefferkuchenhaus-0815',
  jwt: 'eyJhbGciOiJFUzI1NiIsImtpZCI6Ik1BUktFRCJ9.eyJpc3MiOiJWZXJzdGVja3NwaWVsIn0.U2lnbmF0dXJkZXNHZWhlaW1lbg',
  password: 'Hollunderbeersaft%21Zwetschgenkompott',
} as const;

/** A run of so many characters of a mark is a leak. */
const RUN = 10;

/** Ways in which a server, a client or a log may write a text. */
export const ENCODINGS: Readonly<Record<string, (text: string) => string>> = {
  'as it is': (text) => text,
  'in capitals': (text) => text.toUpperCase(),
  'in small letters': (text) => text.toLowerCase(),
  'in JSON': (text) => JSON.stringify(text),
  'in JSON in JSON': (text) => JSON.stringify(JSON.stringify(text)),
  'in a URL': encodeURIComponent,
  'in base64': (text) => Buffer.from(text).toString('base64'),
  'in base64 for URLs': (text) => Buffer.from(text).toString('base64url'),
  'in hexadecimal digits': (text) => Buffer.from(text).toString('hex'),
  'in capital hexadecimal digits': (text) => Buffer.from(text).toString('hex').toUpperCase(),
  'cut short': (text) => text.slice(0, 24),
  'without its beginning': (text) => text.slice(7),
};

/** The marks of which a run of ten characters stands somewhere in the text, in any encoding; `title in base64: UXVpd…`. */
export function leaksIn(text: string, marks: Readonly<Record<string, string>> = MARKS): string[] {
  const haystack = text.toLowerCase();
  return Object.entries(marks).flatMap(([name, mark]) =>
    Object.entries(ENCODINGS).flatMap(([encoding, encode]) => {
      const needle = encode(mark).toLowerCase();
      const starts = Array.from({ length: Math.max(1, needle.length - RUN + 1) }, (_, start) => start);
      const leak = starts.map((start) => needle.slice(start, start + RUN)).find((run) => haystack.includes(run));
      return leak === undefined ? [] : [`${name} ${encoding}: ${leak}`];
    }),
  );
}
