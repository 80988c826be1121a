/**
 * With `ECE_KEYLOG=1`, http_ece prints every key and every text that it encrypts. It reads the variable when it is loaded, so
 * this module must be imported before http_ece.
 */
delete process.env['ECE_KEYLOG'];
