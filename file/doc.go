// Package file keeps locks in a directory, for the processes of one host: no server, nothing to install. It is the store for
// programs on one machine and for command lines.
//
// Keys are spread over 256 files, the buckets, by a hash of their names. A bucket holds the records of the keys that are held or
// waited for: the lease, its end, its token, and the queue of waiters. Buckets change under the operating system's lock on the
// file (flock), which is held for some 10 µs and freed by the kernel when a process dies. The lease itself needs no process: it
// ends at a time on the host's monotonic clock, so that a holder which is killed or stopped (SIGSTOP, a frozen container) blocks
// nobody longer than its TTL, and one that comes back finds its lease lost.
//
// # Guarantees
//
// Linearizable between all processes of the host, containers that share the directory included. A lease is never shorter
// than its TTL. Waiters are granted in the order of their arrival: who releases a key tells the first in the queue through
// that one's FIFO (see mkfifo(3)), and skips the dead. An idle waiter also looks at the record about once a second (less
// often if it is far behind), so that it depends on no other process. Fencing tokens rise over restarts of every process, reboots, and
// steps of the wall clock; and over the loss of the directory, as long as the wall clock has not stepped back.
//
// One process needs one goroutine and one FIFO for each open Backend that has ever waited, and no open file for a lease. The
// folder has 256 files of some 4 kB at most while few keys are held, whatever number of keys was used: keys that are free, or whose
// leases have run out, are left out when their bucket is written next. The FIFOs of killed processes are removed by the next
// process that waits.
//
// # Buckets
//
// A file is made when the first of its keys is used, and stays. It begins with a page of 4096 bytes: a line that names the
// format, two slots for images of the bucket's state, and the mark of a broken lock. An image has a sequence number and a check
// sum. A new image goes to the slot of the older one; one that is too long for a slot goes behind the page, where it does not
// overlap the newer one, and its slot names the place. Whoever has the lock writes; so does nobody else. A reader without the
// lock takes the newest image whose sum is right: a write that it meets, or that was cut short, damages the older one only. If two
// writes overtake it, it looks again under the lock.
//
// The bucket keeps the highest token that it has granted. The next one is one more, or the wall clock's microseconds if these
// are more: so tokens rise for keys that nothing is kept of, and over the loss of the folder.
//
// Keys of one bucket share its lock and nothing else: each has a queue of its own. Two processes that want a bucket in the same
// 10 µs try again after 20 µs, then at random times of up to 2 ms, so that none of them blocks in the kernel. There are so many buckets
// that 64 workers on keys of their own rarely meet, and so few that 10 000 held leases write some 4 kB each time.
//
// # The directory
//
// The store takes a directory that is new or empty, and puts its mark there: the file .anylock, whose first line names the format.
// A directory that holds anything else is refused with ErrInvalid, one of another format with ErrUnsupported: remove it while no
// program uses it, or name another. In its own directory the store touches only its FIFOs and its buckets (bucket.00 to bucket.ff, and
// .next for the one that replaces another), which it knows by their first line. What others put there stays as it is. A bucket's name
// that leads to something else is refused with ErrInvalid, and the error names it; only an empty file there, or one of zeros, is
// used as a new bucket, for that is what a power failure may leave.
//
// # Failure modes
//
//   - A process killed at any moment, in the middle of a write too, leaves the record as it was before or after. A waiter that
//     is killed or cancelled delays nobody; one that is stopped when its turn comes delays the next by half a second, once.
//   - A process stopped while it has a bucket locked (the odds are small: 10 µs for each operation) is found out after 200 ms,
//     and its lock is broken: another file takes the place of the bucket's. What it does when it goes on has no effect, and it
//     starts its operation anew. What remains: a process that is stopped just while it breaks a lock blocks the keys of that
//     one bucket until it goes on or is killed.
//   - A reboot ends all leases, and no fsync is made for them. A power failure may damage a bucket that was written in the half
//     minute before; its keys are refused with ErrInvalid until you remove the file, unless it is empty. After a
//     power failure together with a clock that has lost the time, tokens may fall back by the half minute that the disk had not seen.
//   - The monotonic clock stands still while the machine sleeps, for holders and store alike: a lease then lasts longer by the
//     wall clock.
//   - A full disk refuses keys whose bucket is new or has to grow; an empty file may be left of a bucket. Leases that are held are
//     renewed and released where they are, as long as their bucket has few keys and short queues; they are lost at their deadline
//     if they cannot be renewed. No lock is broken.
//   - Who removes files from the directory removes locks: keep it out of the way of cleaners of /tmp.
//   - Network file systems are refused with ErrUnsupported. A directory that two machines share nevertheless (FUSE, virtiofs) is
//     found out when both use one bucket: by the first of them, which had used it before, and which refuses it from then on.
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
