/**
 * With `ECE_KEYLOG=1`, http_ece prints every key and every text that it encrypts. It looks at the variable when it is loaded, so
 * this module must be imported before it.
 */
delete process.env['ECE_KEYLOG'];
