// Package file keeps locks in a directory, for the processes of one host: no server, nothing to install. It is the store for
// programs on one machine and for command lines.
//
// Each key is a small file that holds a record: the lease, its end, the last token, and the queue of waiters. Records change
// under the operating system's lock on the file (flock), which is held for some 10 µs and freed by the kernel when a process
// dies. The lease itself needs no process: it ends at a time on the host's monotonic clock, so that a holder which is killed
// or stopped (SIGSTOP, a frozen container) blocks nobody longer than its TTL, and one that comes back finds its lease lost.
//
// # Guarantees
//
// Linearizable between all processes of the host, containers that share the directory included. A lease is never shorter
// than its TTL. Waiters are granted in the order of their arrival: who releases a key tells the first in the queue through
// that one's FIFO (see mkfifo(3)), and skips the dead. An idle waiter also looks at the record about once a second (less
// often if it is far behind), so that it depends on no other process. Fencing tokens rise over restarts of every process, reboots, and
// steps of the wall clock; and over the loss of the directory, as long as the wall clock has not stepped back.
//
// One process needs one goroutine and one FIFO for each open Backend that has ever waited, and no open file for a lease.
// Files of keys that stay free for a second are removed, after a release and after a loss; what killed processes leave is removed by
// the next that opens the directory.
//
// # The directory
//
// The store takes a directory that is new or empty, and puts its mark there: the file .anylock, whose first line names the format.
// A directory that holds anything else is refused with ErrInvalid, one of another format with ErrUnsupported. In its own directory
// the store touches only what it has written, which it knows by a check sum in each file: what others put there stays as it is,
// whatever it is called. A key whose file is not the store's is refused with ErrInvalid, and the error names the file.
//
// # Failure modes
//
//   - A process killed at any moment, in the middle of a write too, leaves the record as it was before or after. A waiter that
//     is killed or cancelled delays nobody; one that is stopped when its turn comes delays the next by half a second, once.
//   - A process stopped while it has a record locked (the odds are small: 10 µs for each operation) is found out after 200 ms,
//     and its lock is broken. What it does when it goes on has no effect, and it starts its operation anew. If it was stopped
//     while it removed the file of a key that had been free for a second, or while it broke a lock itself, it blocks that
//     key until it goes on or is killed.
//   - A reboot ends all leases, and no fsync is made for them. A power failure may leave the file of a key empty that was used for the
//     first time in the half minute before. Nothing tells it from somebody else's file: the key is refused until you remove it. After a power failure together with a clock that has lost the
//     time, tokens may fall back by the half minute that the disk had not seen.
//   - The monotonic clock stands still while the machine sleeps, for holders and store alike: a lease then lasts longer by the
//     wall clock.
//   - A full disk refuses new keys, and nothing is left of the attempt. Leases that are held are renewed where they are, as long as
//     their queues are short; they are lost at their deadline if they cannot be renewed.
//   - Who removes files from the directory removes locks: keep it out of the way of cleaners of /tmp.
//   - Network file systems are refused with ErrUnsupported. A directory that two machines share nevertheless (FUSE, virtiofs) is
//     found out, within seconds, when both use it, and refused from then on.
//
// # Sharing between users
//
// The directory is made with mode 0700. Where it exists, its mode decides: if a group or everybody may write in it, they may
// use its locks, whatever the umask of the process. Give a shared directory the group bit (mode 2770), and no sticky bit:
// there only its owner can remove a file or break a lock.
//
// # URLs
//
//	file:///var/lib/myapp/locks    the directory /var/lib/myapp/locks
//
// The path is absolute; %20 and the like are decoded. There is no host (but localhost) and no parameter.
//
// # Systems
//
// Linux, where it is tested, and macOS. Elsewhere it compiles, and Open returns ErrUnsupported.
package file
