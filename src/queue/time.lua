-- Redis's clock, read on the node that has the queue: of a cluster, a plain TIME asks any node.
--
-- KEYS[1] any key of the queue; it is neither read nor written
--
-- Answers what TIME does: seconds since the epoch, and microseconds of the current second, both as text.

return redis.call('TIME')
