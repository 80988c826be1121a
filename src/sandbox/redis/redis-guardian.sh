# Runs a Redis that cannot outlive whoever asked for it, and cleans up after both.
#
#   sh redis-guardian.sh DIR COMMAND ARG...
#
# Standard input is a pipe whose other end only the asker holds. The system closes it when the asker ends, by a SIGKILL
# too, and then the server is killed. A pipe does this on every Unix; a parent-death signal would need Linux.
# DIR is removed when the server has ended; '' where nothing is to be removed. The first line of output is `pid N`,
# the rest is the server's. The exit code is the server's.

# Only the end of the asker or of the server ends a guardian: signals to the group are not meant for it, and the shell's
# own report of a killed server must not end it before it has cleaned up, when nobody reads that any more.
trap '' HUP INT TERM PIPE

dir=$1
shift

exec 3<&0
"$@" </dev/null 3<&- &
server=$!
echo "pid $server"

# A process of its own, so that a guardian that is killed itself leaves a watch behind.
(while read -r _; do :; done; kill -KILL "$server" 2>/dev/null) <&3 >/dev/null 2>&1 &
watch=$!

wait "$server"
code=$?
kill -KILL "$watch" 2>/dev/null
if [ -n "$dir" ]; then rm -rf -- "$dir"; fi
exit "$code"
