#!/bin/sh
# Runs a command under a lock of "anylock serve", with curl: anylock.sh URL KEY COMMAND [ARG...]
# KEY is percent-encoded. ANYLOCK_TTL and ANYLOCK_WAIT are in whole seconds (30, 60); a TTL below 6 is too short for this client.
# ANYLOCK_AUTH is a token, if the server needs one.
# ANYLOCK_SHARED=true is for a reader, beside other readers. Others see ANYLOCK_LABEL: letters, digits and . : _ -
# The command has $ANYLOCK_TOKEN, a fencing token. It gets SIGTERM, and a moment later SIGKILL, before the lease ends without renewal.
# Exit code: the command's; 75 if the lock is busy, 113 if it was lost, 69 if the server does not answer.
# "anylock run" does this better where it can be installed: it kills what the command starts, too.
set -u
if (: <&0) 2>/dev/null; then # the command's standard input: a shell gives /dev/null to what it starts in the background
	exec 3<&0
else
	exec 3</dev/null
fi
url=$1 key=$2
shift 2
ttl=${ANYLOCK_TTL:-30} wait=${ANYLOCK_WAIT:-60}
[ "$ttl" -ge 6 ] 2>/dev/null || {
	echo "anylock.sh: ANYLOCK_TTL is '$ttl', and must be a whole number of seconds, at least 6" >&2
	exit 64
}
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

# now prints the time in hundredths of a second, by a clock that nobody sets if the system shows one. Linux does.
now() {
	if [ -r /proc/uptime ]; then
		read -r up rest </proc/uptime
		echo "${up%.*}${up#*.}"
	else
		echo "$(date +%s)00"
	fi
}

# seconds prints hundredths of a second as seconds.
seconds() { printf '%d.%02d\n' $(($1 / 100)) $(($1 % 100)); }

# left prints for how many hundredths of a second after sending the lease is exclusive.
left() { echo $(($(sed -n 's/.*"deadline_ms":\([0-9]*\).*/\1/p' "$answer") / 10)); }

end=$(($(now) + wait * 100))
while :; do
	sent=$(now)
	poll=$((end - sent))
	[ $poll -gt 0 ] || poll=0
	[ $poll -lt 2000 ] || poll=2000
	status=$(call PUT "$lock?owner=$owner&$mode&ttl_ms=$((ttl * 1000))&wait_ms=$((poll * 10))" 30)
	[ "$status" != 200 ] || break
	case $status in
	423) code=75 ;;
	000 | 429 | 503) code=69 ;;
	*)
		cat "$answer" >&2
		exit 64
		;;
	esac
	if [ "$(now)" -ge $end ]; then
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

"$@" <&3 3<&- &
command=$!
exec 3<&-
trap 'kill -TERM $command 2>/dev/null' TERM INT HUP

# Renews after a third of the time that is left. At the end of the lease, which it takes to be two seconds early, it stops the command.
(
	trap - TERM INT HUP
	while kill -0 $command 2>/dev/null; do
		third=$(((deadline - $(now)) / 3))
		[ $third -gt 0 ] || third=0
		sleep "$(seconds $third)" &
		trap "kill $! 2>/dev/null; exit" TERM
		wait $!
		status=0
		while
			sent=$(now)
			limit=$((deadline - 200 - sent))
			[ $limit -gt 0 ]
		do
			[ $limit -lt $((third + 100)) ] || limit=$((third + 100))
			status=$(call POST "$lock/renew?owner=$owner&lease=$lease&ttl_ms=$((ttl * 1000))" "$(seconds $limit)")
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
