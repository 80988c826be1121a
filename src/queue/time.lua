-- Redis's clock, read on the node that has the queue: in a cluster a plain TIME goes to any node.
--
-- KEYS[1] any key of the queue, only to choose the node
--
-- Answers like TIME: seconds since the epoch, and microseconds of the current second, both as text.

return redis.call('TIME')
