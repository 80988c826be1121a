# Runs a Redis that ends with the process that started it (the parent), and removes its files.
#
#   sh redis-guardian.sh DIR COMMAND ARG...
#
# Standard input is a pipe whose other end only the parent has. The system closes it when the parent ends, even by SIGKILL,
# and then the server is killed. A pipe works on every Unix; a parent-death signal would need Linux.
# DIR is removed when the server has ended; '' if there is nothing to remove. The first line of output is `pid N`, the rest
# is the server's output. The exit code is the server's.
#
# Signals are ignored: only the end of the parent or of the server may end this script, so that it always cleans up. PIPE is
# ignored because the shell reports a killed server when nobody reads its output any more.
trap '' HUP INT TERM PIPE

dir=$1
shift

exec 3<&0
"$@" </dev/null 3<&- &
server=$!
echo "pid $server"

# A second process, so that the server is still killed if this script itself is killed.
(while read -r _; do :; done; kill -KILL "$server" 2>/dev/null) <&3 >/dev/null 2>&1 &
watch=$!

wait "$server"
code=$?
kill -KILL "$watch" 2>/dev/null
if [ -n "$dir" ]; then rm -rf -- "$dir"; fi
exit "$code"
