#!/bin/sh
# Runs a command under a lock of "anylock serve", with curl: anylock.sh URL KEY COMMAND [ARG...]
# KEY is percent-encoded. ANYLOCK_TTL and ANYLOCK_WAIT are in seconds (30, 60). ANYLOCK_AUTH is a token, if the server needs one.
# ANYLOCK_SHARED=true is for a reader, beside other readers. Others see ANYLOCK_LABEL: letters, digits and . : _ -
# The command has $ANYLOCK_TOKEN, a fencing token. It gets SIGTERM, and a moment later SIGKILL, before the lease ends without renewal.
# Exit code: the command's; 75 if the lock is busy, 113 if it was lost, 69 if the server does not answer.
# "anylock run" does this better where it can be installed: it kills what the command starts, too.
set -u
url=$1 key=$2
shift 2
ttl=${ANYLOCK_TTL:-30} wait=${ANYLOCK_WAIT:-60}
lock=$url/v1/locks/$key
mode="shared=${ANYLOCK_SHARED:-false}&label=${ANYLOCK_LABEL:-}" lease=
owner=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
auth=$(mktemp) answer=$(mktemp) lost=$(mktemp -u)
[ -z "${ANYLOCK_AUTH:-}" ] || printf 'header = "Authorization: Bearer %s"\n' "$ANYLOCK_AUTH" >"$auth" # not in the arguments: ps shows them
trap 'rm -f "$auth" "$answer" "$lost"' EXIT

# call METHOD TARGET SECONDS prints the status, 000 if there is no answer.
call() { curl -sS -K "$auth" -o "$answer" -w '%{http_code}' -m "$3" -X "$1" "$2" 2>/dev/null || :; }

release() {
	for pause in 0.1 0.2 0.5 1 1 1; do # then the TTL ends the lease
		case $(call DELETE "$lock?owner=$owner&lease=$lease" 5) in
		000 | 503) sleep $pause ;;
		*) return ;;
		esac
	done
}

# left prints for how many whole seconds after sending the lease is exclusive.
left() { sed -n 's/.*"deadline_ms":\([0-9]*\).*/\1/p' "$answer" | awk '{ print int($1 / 1000) }'; }

end=$(($(date +%s) + wait))
while :; do
	now=$(date +%s)
	poll=$((end - now)) sent=$now
	[ $poll -gt 0 ] || poll=0
	[ $poll -lt 20 ] || poll=20
	status=$(call PUT "$lock?owner=$owner&$mode&ttl_ms=$((ttl * 1000))&wait_ms=$((poll * 1000))" 30)
	[ "$status" != 200 ] || break
	case $status in
	423) code=75 ;;
	000 | 429 | 503) code=69 ;;
	*)
		cat "$answer" >&2
		exit 64
		;;
	esac
	if [ "$(date +%s)" -ge $end ]; then
		release # a grant may be on its way
		exit $code
	fi
	[ "$status" = 423 ] || {
		mode="${mode%&retry=true}&retry=true" # a grant that we never heard of may be in the way
		sleep 1
	}
done
deadline=$((sent + $(left)))
ANYLOCK_TOKEN=$(sed -n 's/.*"token":"\([0-9]*\)".*/\1/p' "$answer")
export ANYLOCK_TOKEN
lease=$(sed -n 's/.*"lease":"\([^"]*\)".*/\1/p' "$answer") # lets a restarted server, or another one, continue the lease

"$@" &
command=$!
trap 'kill -TERM $command 2>/dev/null' TERM INT HUP

# Renews every third of the TTL. At the end of the lease, which it takes to be two seconds early, it stops the command.
(
	trap - TERM INT HUP
	while kill -0 $command 2>/dev/null; do
		sleep "$(awk "BEGIN { print $ttl / 3 }")" &
		trap "kill $! 2>/dev/null; exit" TERM
		wait $!
		sent=$(date +%s) status=0
		while [ "$(date +%s)" -lt $((deadline - 2)) ]; do
			sent=$(date +%s)
			status=$(call POST "$lock/renew?owner=$owner&lease=$lease&ttl_ms=$((ttl * 1000))" $((ttl / 3 + 1)))
			[ "$status" != 200 ] && [ "$status" != 410 ] || break
			sleep 0.5
		done
		if [ "$status" != 200 ]; then
			: >"$lost"
			kill -TERM $command 2>/dev/null
			sleep 1
			kill -KILL $command 2>/dev/null
			exit
		fi
		deadline=$((sent + $(left)))
	done
) &
renewer=$!

wait $command
code=$?
while kill -0 $command 2>/dev/null; do # a signal has ended the wait, not the command
	wait $command
	code=$?
done
kill $renewer 2>/dev/null
wait $renewer 2>/dev/null
if [ -e "$lost" ]; then
	exit 113
fi
release
exit $code
